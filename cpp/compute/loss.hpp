// Derivatives of the losses with respect to a response u, for a target y: a struct each, the twin
// of the class of losses.py that has the same name there. None of them overflows.
#pragma once

#include <cmath>
#include <string_view>

namespace mercer {
namespace {  // compiled once per instruction-set level: no symbol of one may stand in for another's

inline double between(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

struct SquaredSlope {
    double operator()(double u, double y) const { return u - y; }
};
struct HuberSlope {
    double delta;
    double operator()(double u, double y) const { return between(u - y, -delta, delta); }
};
struct LogisticSlope {
    double operator()(double u, double y) const {
        const double v = y * u, small = std::exp(v >= 0.0 ? -v : v);
        return -y * (v >= 0.0 ? small : 1.0) / (1.0 + small);
    }
};
struct SquaredHingeSlope {
    double operator()(double u, double y) const {
        const double short_by = 1.0 - y * u;
        return short_by > 0.0 ? -2.0 * y * short_by : 0.0;
    }
};
struct SmoothHingeSlope {
    double operator()(double u, double y) const { return -y * between(1.0 - y * u, 0.0, 1.0); }
};
struct CorrentropySlope {
    double sigma;
    double operator()(double u, double y) const {
        const double r = u - y, t = r / sigma;
        return r * std::exp(-t * t);
    }
};
struct SigmoidSlope {
    double operator()(double u, double y) const {
        const double small = std::exp(u >= 0.0 ? -u : u);
        return -y * small / ((1.0 + small) * (1.0 + small));
    }
};

}  // namespace

// Names in the order of the table of slopes; `parameter` is delta or sigma where there is one.
inline constexpr std::string_view loss_names[] = {
    "squared", "huber", "logistic", "squared_hinge", "smooth_hinge", "correntropy", "sigmoid"};
inline constexpr int n_losses = 7;

}  // namespace mercer

// Asynchronous, doubly stochastic proximal steps: threads move coordinates of shared weights by the
// derivatives of mini-batches, corrected by those at a snapshot, and wait for nobody.
//
// Every thread works on weights of its own and writes what it changes into a log that all others
// read when they please, so that nobody writes where another one reads. Step t looks at rows and
// coordinates that follow from t alone; what depends on the threads is how old the weights are.
#pragma once

#include <cmath>
#include <memory>

#include "parallel.hpp"
#include "svrg_course.hpp"

namespace mercer {

// One thread's view of the weights, and its steps.
class Walker {
  public:
    Walker(const View& view, const Objective& objective, const Snapshot& snapshot,
           const Course& course, const double* w, Log* logs, int thread, int n_threads,
           std::size_t look)
        : view_(view), objective_(objective), snapshot_(snapshot), course_(course), logs_(logs),
          thread_(thread), n_threads_(n_threads), look_(look), w_(w, w + objective.q),
          narrow_(view.single ? objective.q : 0), seen_(static_cast<std::size_t>(n_threads)),
          whole_(course.batch >= view.n), batch_(whole_ ? view.n : course.batch), u_(batch_),
          y_(batch_), slope_(batch_), v_(course.width) {
        if (snapshot.curvature) {
            moved_.resize(w_.size());
            by_.resize(course.width);
            curved_.resize(course.width);
            lines_.resize(course.width);
        }
        for (std::size_t j = 0; j < w_.size(); ++j) narrow(j);
        logs_[thread].open(course.count * course.width);
        if (whole_)
            for (std::size_t i = 0; i < batch_; ++i) all_.push_back(static_cast<std::uint32_t>(i));
    }

    // Steps from .. from + count - 1 of the course.
    bool walk(std::size_t from, std::size_t count) {
        const std::size_t size = whole_ ? 1 : 1 + batch_;
        words_.resize(count * size);
        rows_.resize(whole_ ? 0 : count * batch_);
        for (std::size_t s = 0; s < count; ++s) {
            std::uint32_t* words = words_.data() + s * size;
            draw(course_, course_.first + from + s, size, words);
            for (std::size_t k = 0; k + 1 < size; ++k)
                rows_[s * batch_ + k] =
                    static_cast<std::uint32_t>(mercer::below(words[1 + k], view_.n));
        }
        bool finite = true;
        for (std::size_t s = 0; s < count && finite; ++s) {
            if (s % look_ == 0) catch_up();
            const std::uint32_t* words = words_.data() + s * size;
            const std::size_t first = mercer::below(words[0], objective_.q);
            const Batch batch =
                whole_ ? Batch{all_.data(), batch_, batch_}
                       : Batch{rows_.data() + s * batch_, batch_, (count - s) * batch_};
            if (snapshot_.curvature)
                finite = step_in_block(words[0], batch);
            else if (course_.supports && first < view_.p)
                finite = step_in_support(first, words + 1);
            else
                finite = step(first, batch);
            if ((s + 1) % look_ == 0 || s + 1 == count) logs_[thread_].publish();
        }
        return finite;
    }
    std::size_t moves() const { return moves_; }

  private:
    // Along coordinates first, first + 1, ... (the first one follows the last).
    bool step(std::size_t first, const Batch& batch) {
        slopes(batch, 1.0 / static_cast<double>(batch.count));
        const std::size_t q = objective_.q, width = course_.width;
        const std::size_t head = std::min(width, q - first);
        std::fill(v_.begin(), v_.end(), 0.0);
        add_rows(batch, first, head, v_.data());
        add_rows(batch, 0, width - head, v_.data() + head);
        bool finite = true;
        for (std::size_t k = 0; k < width; ++k)
            finite = move(k < head ? first + k : k - head, v_[k]) && finite;
        return finite;
    }

    // Along the coordinates of one block, by its curvature.
    bool step_in_block(std::uint32_t word, const Batch& batch) {
        slopes(batch, 1.0 / static_cast<double>(batch.count));
        const std::size_t q = objective_.q, width = course_.width;
        const std::size_t block = mercer::below(word, (q + width - 1) / width);
        const std::size_t first = block * width, size = std::min(width, q - first);
        const Curvature& curvature = *snapshot_.curvature;
        for (std::size_t k = 0; k < size; ++k) lines_[k] = curvature.matrix + (first + k) * q;
        svrg_loops().f32.dots(lines_.data(), size, size, moved_.data(), q, curved_.data());
        for (std::size_t k = 0; k < size; ++k) v_[k] = snapshot_.gradient[first + k] + curved_[k];
        add_rows(batch, first, size, v_.data());
        svrg_loops().block_moves(lines_[0] + first, q, size, curvature.scale, w_.data() + first,
                                 objective_.l1 + first, objective_.l2 + first, v_.data(),
                                 by_.data());
        bool finite = true;
        for (std::size_t k = 0; k < size; ++k) finite = change(first + k, by_[k]) && finite;
        return finite;
    }

    // Along one coordinate, by rows that are not zero in its column.
    bool step_in_support(std::size_t j, const std::uint32_t* words) {
        const ColumnLists& lists = *course_.supports;
        const auto start = lists.starts[j];
        const auto size = static_cast<std::size_t>(lists.starts[j + 1] - start);
        const std::size_t count = std::min(size, batch_);
        entries_.resize(count);
        chosen_.resize(count);
        for (std::size_t k = 0; k < count; ++k) {
            const std::size_t place = size <= batch_ ? k : mercer::below(words[k], size);
            entries_[k] = start + static_cast<std::int64_t>(place);
            chosen_[k] = lists.rows[entries_[k]];
        }
        const Batch batch{chosen_.data(), count, count};
        const double share = static_cast<double>(size) / static_cast<double>(view_.n);
        slopes(batch, count ? share / static_cast<double>(count) : 0.0);
        double sum = 0.0;
        for (std::size_t k = 0; k < count; ++k) sum += slope_[k] * lists.value(entries_[k]);
        return move(j, sum);
    }

    // slope_ = factor * weight_i (loss'(now) - loss'(snapshot)) for the rows of a batch.
    void slopes(const Batch& batch, double factor) {
        const double intercept = objective_.q > view_.p ? w_[view_.p] : 0.0;
        for (std::size_t r = 0; r < batch.count; ++r) {  // while responses are computed
            fetch(objective_.y + batch.rows[r]);
            fetch(snapshot_.slopes + batch.rows[r]);
        }
        view_.responses(batch, w_.data(), narrow_.data(), intercept, u_.data());
        for (std::size_t r = 0; r < batch.count; ++r) y_[r] = objective_.y[batch.rows[r]];
        objective_.slopes(u_.data(), y_.data(), batch.count, objective_.parameter, slope_.data());
        for (std::size_t r = 0; r < batch.count; ++r) {
            const std::uint32_t i = batch.rows[r];
            const double weight = objective_.weights ? objective_.weights[i] : 1.0;
            slope_[r] = weight * slope_[r] - snapshot_.slopes[i];
            if (snapshot_.curvature) slope_[r] -= snapshot_.curvature->rows[i] * u_[r];
            slope_[r] *= factor;
        }
    }

    void add_rows(const Batch& batch, std::size_t first, std::size_t count, double* v) const {
        const std::size_t columns = first < view_.p ? std::min(count, view_.p - first) : 0;
        if (columns) view_.add(batch, slope_.data(), first, columns, v);
        if (count > columns)  // the intercept
            for (std::size_t r = 0; r < batch.count; ++r) v[columns] += slope_[r];
    }

    bool move(std::size_t j, double correction) {
        const double step = snapshot_.steps[j];
        const double target = w_[j] - step * (correction + snapshot_.gradient[j]);
        return change(j, prox(target, step, objective_.l1[j], objective_.l2[j]) - w_[j]);
    }
    bool change(std::size_t j, double by) {
        if (by == 0.0) return true;
        w_[j] += by;
        narrow(j);
        if (view_.keeps) view_.moved(j, by);
        logs_[thread_].note(j, by);
        ++moves_;
        return std::isfinite(by) && std::isfinite(w_[j]);
    }

    void catch_up() {
        for (int other = 0; other < n_threads_; ++other)
            if (other != thread_)
                logs_[other].read(seen_[static_cast<std::size_t>(other)], [&](const Change& c) {
                    w_[c.coordinate] += c.by;
                    narrow(c.coordinate);
                });
    }
    void narrow(std::size_t j) {
        if (view_.single) narrow_[j] = static_cast<float>(w_[j]);
        if (snapshot_.curvature)
            moved_[j] = static_cast<float>(w_[j] - snapshot_.curvature->anchor[j]);
    }

    const View& view_;
    const Objective& objective_;
    const Snapshot& snapshot_;
    const Course& course_;
    Log* logs_;
    int thread_, n_threads_;
    std::size_t look_;  // steps between two looks at what others did
    std::vector<double> w_;
    std::vector<float> narrow_;  // w_ for views that are single
    std::vector<std::size_t> seen_;
    bool whole_;
    std::size_t batch_;
    std::vector<double> u_, y_, slope_, v_, by_, curved_;
    std::vector<float> moved_;  // since the snapshot
    std::vector<const float*> lines_;
    std::vector<std::uint32_t> all_, words_, rows_, chosen_;
    std::vector<std::int64_t> entries_;
    std::size_t moves_ = 0;
};

// Takes the steps of a course, n_threads at a time, and adds them to w (q).
inline Walked walk(const View& view, const Objective& objective, const Snapshot& snapshot,
                   const Course& course, double* w, int n_threads) {
    const auto logs = std::make_unique<Log[]>(static_cast<std::size_t>(n_threads));
    // Rows that are known before can be fetched. A look at the logs of others has its price, but
    // what a thread does not know yet it corrects twice.
    const std::size_t bytes = std::max<std::size_t>(course.batch * view.row_bytes(), 1);
    const std::size_t stride = std::clamp<std::size_t>((std::size_t{1} << 18) / bytes, 1, 16);
    const std::size_t look = std::clamp<std::size_t>((std::size_t{1} << 14) / bytes, 1, stride);
    std::atomic<std::size_t> next{0}, moves{0};
    std::atomic<bool> finite{true};
    on_threads(n_threads, [&](int thread) {
        Walker walker(view, objective, snapshot, course, w, logs.get(), thread, n_threads, look);
        while (finite.load(std::memory_order_relaxed)) {
            const std::size_t from = next.fetch_add(stride, std::memory_order_relaxed);
            if (from >= course.count) break;
            if (!walker.walk(from, std::min(stride, course.count - from))) finite = false;
        }
        moves += walker.moves();
    });
    for (int thread = 0; thread < n_threads; ++thread) {
        std::size_t seen = 0;
        logs[static_cast<std::size_t>(thread)].read(
            seen, [&](const Change& c) { w[c.coordinate] += c.by; });
    }
    return {moves, finite};
}

// slopes_i = weight_i loss'(y_i, u_i), less rows_i u_i if there are such, for the response u_i of
// row i at w, computed as steps compute it.
inline void snapshot_slopes(const View& view, const Objective& objective, const double* w,
                            const double* rows_curvature, double* slopes, int n_threads) {
    constexpr std::size_t size = 64;
    std::vector<float> narrow(view.single ? objective.q : 0);
    for (std::size_t j = 0; j < narrow.size(); ++j) narrow[j] = static_cast<float>(w[j]);
    const double intercept = objective.q > view.p ? w[view.p] : 0.0;
    parallel_for((view.n + size - 1) / size, n_threads, [&](std::size_t block, int) {
        const std::size_t first = block * size, count = std::min(size, view.n - first);
        std::uint32_t rows[size];
        double u[size];
        for (std::size_t r = 0; r < count; ++r) rows[r] = static_cast<std::uint32_t>(first + r);
        view.responses({rows, count, count}, w, narrow.data(), intercept, u);
        objective.slopes(u, objective.y + first, count, objective.parameter, slopes + first);
        if (objective.weights)
            for (std::size_t r = 0; r < count; ++r)
                slopes[first + r] *= objective.weights[first + r];
        if (rows_curvature)
            for (std::size_t r = 0; r < count; ++r)
                slopes[first + r] -= rows_curvature[first + r] * u[r];
    });
}

}  // namespace mercer

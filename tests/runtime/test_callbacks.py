"""The callbacks of fits where scikit-learn has none: the same calls as it makes since 1.9."""

import pytest
from sklearn.base import BaseEstimator, clone

from mercer._runtime import progress as _callbacks
from mercer._runtime.progress import OwnCallbacks, with_own_callbacks


def counting(support, managed):
    """An estimator that counts its iterations and tells its callbacks."""

    class Counting(support, BaseEstimator):
        def __init__(self, n=5):
            self.n = n

        @managed
        def fit(self, X, y=None):
            context = self._init_callback_context(max_subtasks=None)
            context.call_on_fit_task_begin(estimator=self, X=X, y=y)
            for i in range(self.n):
                task = context.subcontext(task_name="iteration")
                task.call_on_fit_task_begin(estimator=self, X=X, y=y)
                self.n_done_ = i + 1
                if task.call_on_fit_task_end(
                    estimator=self, X=X, y=y, reconstruction_attributes=lambda i=i: {"step_": i}
                ):
                    break
            context.call_on_fit_task_end(
                estimator=self, X=X, y=y, reconstruction_attributes=lambda: {"step_": self.n_done_}
            )
            return self

    return Counting


class Recorder:
    """A callback that writes down what it is told, and stops after an iteration."""

    def __init__(self, last=99, raises=False):
        self.last, self.raises, self.told = last, raises, []

    def setup(self, estimator, context):
        self.told.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.told.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context, *, X):
        self.told.append(("begin", context.task_name, context.task_id, X))

    def on_fit_task_end(self, estimator, context, *, y, fitted_estimator):
        self.told.append(("end", context.task_name, context.task_id, y, fitted_estimator.step_))
        assert fitted_estimator is not estimator
        if self.raises:
            raise KeyboardInterrupt
        return context.task_name == "iteration" and context.task_id == self.last


FORMS = [counting(OwnCallbacks, with_own_callbacks)]
if _callbacks.HAVE_CALLBACKS:  # the twin
    FORMS.append(counting(_callbacks.CallbackSupportMixin, _callbacks.with_callbacks))


@pytest.mark.parametrize("form", FORMS)
def test_callbacks_are_told_of_every_task_and_stop_the_fit(form):
    recorder = Recorder(last=1)
    model = form().set_callbacks(recorder).fit("X", "y")
    assert model.n_done_ == 2
    assert recorder.told == [
        ("setup", "fit"),
        ("begin", "fit", 0, "X"),
        ("begin", "iteration", 0, "X"),
        ("end", "iteration", 0, "y", 0),
        ("begin", "iteration", 1, "X"),
        ("end", "iteration", 1, "y", 1),
        ("end", "fit", 0, "y", 2),
        ("teardown", "fit"),
    ]
    assert not hasattr(model, "step_")


@pytest.mark.parametrize("form", FORMS)
def test_callbacks_are_torn_down_after_an_interruption_and_cloned_with_the_estimator(form):
    recorder = Recorder(raises=True)
    model = clone(form().set_callbacks(recorder))
    with pytest.raises(KeyboardInterrupt):
        model.fit("X")
    assert recorder.told[-1] == ("teardown", "fit")
    assert clone(model.set_callbacks()).fit("X").n_done_ == 5


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wrong", [Recorder, 3, None])
def test_what_is_no_callback_is_refused(form, wrong):
    with pytest.raises(TypeError, match="callbacks must be"):
        form().set_callbacks(wrong)

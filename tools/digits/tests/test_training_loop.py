"""The training loop: its learning rate, and the weights that it stores."""

from __future__ import annotations

from itertools import count

import pytest

torch = pytest.importorskip("torch", reason="training needs torch")
training_loop = pytest.importorskip("training_loop")
PLAN = training_loop.Plan(seconds=3600.0, learning_rate=0.1, done=0.0, from_scratch=True)


class FakeClock:
    """Report half of the run as done for three steps, then all of it."""

    def __init__(self, calls: list[tuple[int, int, float]]) -> None:
        self.plan = PLAN
        self.calls = calls

    def tick(self) -> float:
        """Return the share of the run that is done."""
        return 1.0 if len(self.calls) == 3 else 0.5


def test_a_run_stores_an_average_of_its_weights_and_ends() -> None:
    """The final weights are not stored; a step receives its batch, its number and the progress."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    calls: list[tuple[int, int, float]] = []
    stored: list[float] = []

    def learn(batch: int, step: int, progress: float) -> dict[str, float]:
        calls.append((batch, step, progress))
        torch.nn.init.constant_(model.weight, step)
        return {"loss": 0.0}

    def save(average: torch.nn.Module) -> None:
        stored.append(average.weight.item())

    training_loop.run(
        model, count(7), FakeClock(calls), optimizer=optimizer, learn=learn, save=save
    )

    assert calls == [(7, 1, 0.5), (8, 2, 0.5), (9, 3, 0.5), (10, 4, 1.0)]
    assert optimizer.param_groups[0]["lr"] == training_loop.rate_at(PLAN, 1.0, 4)
    assert len(stored) == 1
    assert 1.0 < stored[0] < 4.0

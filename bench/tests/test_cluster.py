from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_bench.capacity import cluster
from wlk_bench.capacity.cluster import simulate
from wlk_bench.capacity.cluster_config import ClusterConfig, LoadProfile
from wlk_bench.capacity.plan import cost_curve, plan
from wlk_bench.capacity.replica import Replica, SimulatedSession
from wlk_bench.capacity.scaling import Scaling
from wlk_bench.capacity.service_times import ServiceTimes
from wlk_bench.errors import DataError
from wlk_serve.ray.autoscaling import replica_count

few = settings(deadline=None, max_examples=25, derandomize=True)

CHEAP = ServiceTimes.constant(0.001)
CONFIGS = st.builds(
    ClusterConfig,
    max_sessions=st.integers(1, 8),
    start_seconds=st.sampled_from([0.0, 5.0, 60.0]),
    min_replicas=st.integers(1, 3),
    max_replicas=st.integers(3, 12),
    upscale_delay=st.sampled_from([0.0, 20.0]),
    downscale_delay=st.sampled_from([0.0, 30.0]),
    drain_seconds=st.sampled_from([0.0, 15.0, 3600.0]),
    replicas_per_node=st.integers(1, 3),
    retry_seconds=st.just(3.0),
)
LOADS = st.builds(
    LoadProfile,
    sessions=st.floats(0.5, 40),
    mean_seconds=st.sampled_from([1.0, 20.0, 200.0]),
    initial_sessions=st.none() | st.integers(0, 40),
    seconds=st.sampled_from([25.0, 120.0]),
    failures=st.lists(st.floats(0, 120), max_size=4).map(tuple),
)


def fixed(replicas, **fields):
    """Return a cluster whose size never changes."""
    return ClusterConfig(min_replicas=replicas, max_replicas=replicas, **fields)


@few
@given(CONFIGS, LOADS, st.integers(0, 3))
def test_every_session_is_counted_once(config, load, seed):
    """It completes, is refused, runs at the end, or waits for a replica at the end."""
    result = simulate(CHEAP, config, load, seed=seed)

    assert result.arrived == sum((result.completed, result.refused, result.running, result.waiting))
    assert all(m.sessions <= config.max_sessions * (m.ready + m.draining) for m in result.moments)
    assert result.most_replicas * load.seconds >= result.replica_hours * 3600 - 1e-6


@settings(few, max_examples=5)
@given(CONFIGS, LOADS)
def test_a_seed_gives_one_result(config, load):
    """The simulation uses no other source of chance."""
    assert simulate(CHEAP, config, load, seed=1) == simulate(CHEAP, config, load, seed=1)


@few
@given(st.integers(1, 30), st.integers(0, 3))
def test_no_chunk_waits_for_more_than_all_sessions_of_its_replica(sessions, seed):
    """Chunks of 10 ms: the p99 lies between a step alone and a step for each session."""
    service = ServiceTimes.constant(0.01)
    load = LoadProfile(sessions=sessions, mean_seconds=1e9, seconds=30)
    result = simulate(service, fixed(1, max_sessions=50), load, seed=seed)

    assert 0.01 - 0.5 <= result.p99_lateness <= 0.01 * sessions + 0.001 - 0.5


def test_a_cluster_that_does_not_change_costs_its_size():
    """Three replicas for half an hour; the price has no unit of its own."""
    planned = plan(
        CHEAP,
        fixed(3, max_sessions=10),
        LoadProfile(sessions=4, seconds=1800),
        price_per_hour=2.0,
        seed=0,
    )

    assert planned["replica_hours"] == pytest.approx(1.5)
    assert planned["cost"] == pytest.approx(3.0)
    assert planned["cost_per_hour"] == pytest.approx(6.0)
    assert 1 == planned["replicas"]
    assert planned["moments"][-1]["cost"] == pytest.approx(3.0)


def test_sessions_beyond_the_places_are_refused():
    """Two replicas of three places, ten sessions at the beginning."""
    load = LoadProfile(sessions=1e-6, mean_seconds=1e9, initial_sessions=10, seconds=20)
    result = simulate(CHEAP, fixed(2, max_sessions=3), load)

    assert (6, 4) == (result.running, result.refused)


def test_sessions_of_a_node_that_fails_open_elsewhere():
    """The replicas left have room, so none of the sessions is refused or waits."""
    load = LoadProfile(
        sessions=1e-6, mean_seconds=1e9, initial_sessions=12, seconds=60, failures=(20.0,)
    )
    result = simulate(CHEAP, fixed(3, max_sessions=6, start_seconds=1000), load)

    assert (1, 4) == (result.failed_replicas, result.reopened)
    assert (12, 0, 0) == (result.running, result.waiting, result.refused)
    assert 2 == result.moments[-1].ready


def test_sessions_wait_where_the_only_replica_fails():
    """They open again when the next one has started, and send all of the audio since then."""
    load = LoadProfile(
        sessions=1e-6, mean_seconds=1e9, initial_sessions=5, seconds=120, failures=(20.5,)
    )
    result = simulate(CHEAP, fixed(1, max_sessions=6, start_seconds=30, retry_seconds=1), load)

    assert 5 == max(moment.waiting for moment in result.moments)
    assert (5, 5, 0) == (result.running, result.reopened, result.waiting)
    assert result.session_hours * 3600 == pytest.approx(5 * (120 + 3), abs=3)


def test_a_session_that_ends_while_it_waits_is_completed_later():
    """Its client sends the rest, and then the end."""
    load = LoadProfile(
        sessions=1e-6, mean_seconds=5.0, initial_sessions=5, seconds=400, failures=(2.0,)
    )
    result = simulate(CHEAP, fixed(1, max_sessions=6, start_seconds=200, retry_seconds=1), load)

    assert (5, 0, 0) == (result.completed, result.waiting, result.refused)


@pytest.mark.parametrize(("drain_seconds", "reopened"), [(0.0, 10), (1e6, 0)])
def test_a_replica_that_is_not_needed_drains(drain_seconds, reopened):
    """Its sessions go on until the drain is over; then the replica that is left takes them."""
    config = ClusterConfig(max_sessions=40, downscale_delay=0.0, drain_seconds=drain_seconds)
    load = LoadProfile(sessions=1e-6, mean_seconds=1e9, initial_sessions=20, seconds=40)
    simulation = cluster._Cluster(CHEAP, config, load, 0)
    simulation._start_replica(seconds=0.0)  # the policy needs one alone

    result = simulation.run()

    assert (20, reopened) == (result.running, result.reopened)
    assert (1, 1) == (result.moments[-1].ready, result.moments[-1].draining + (reopened > 0))


def test_replicas_follow_the_sessions():
    """From 10 sessions to 100: replicas are started after the delay, and take the load."""
    load = LoadProfile(sessions=100, mean_seconds=60, initial_sessions=10, seconds=900)
    result = simulate(CHEAP, ClusterConfig(max_sessions=10), load)

    first, last = result.moments[0], result.moments[-1]
    assert first.ready <= 3
    assert 10 <= last.ready <= 20
    assert replica_count(sessions=80, running=0, max_sessions=10, latenesses=()) <= last.ready


def test_the_number_of_replicas_changes_after_the_delay_alone():
    """A peak that is over before the delay starts nothing."""
    scaling = Scaling(ClusterConfig(max_sessions=10, upscale_delay=30, downscale_delay=60))
    moments = [(0, 50), (10, 5), (20, 50), (40, 50), (50, 50), (60, 5), (110, 5), (120, 5)]

    found = [
        scaling.target(now, sessions=sessions, running=1, latenesses=())
        for now, sessions in moments
    ]

    assert [1, 1, 1, 1, 8, 8, 8, 1] == found


def test_audio_that_is_sent_again_is_due_as_the_scheduler_has_it():
    """Ten chunks at once and one live: none is due before it would have been spoken, less 2 s."""
    replica = Replica(ServiceTimes.constant(0.001), number=0, started=0.0)
    session = SimulatedSession(0, ends=100.0)
    replica.join(session, 20.0, resent_seconds=5.0)

    latenesses = replica.advance(20.6)

    spoken = [18.0 + 0.5 * k for k in range(10)]
    due = [max(20.0, time) for time in spoken] + [max(20.5, 18.0 + 5.0)]
    ends = [20.0 + 0.001 * (k + 1) for k in range(10)] + [20.501]
    expected = [end - time - 0.5 for end, time in zip(ends, due, strict=True)]
    assert sorted(expected) == pytest.approx(sorted(latenesses.tolist()))


def test_the_curve_of_costs_grows_with_the_load():
    """Ten times the sessions need about ten times the replicas."""
    rows = cost_curve(
        CHEAP,
        ClusterConfig(max_sessions=10),
        LoadProfile(sessions=1, mean_seconds=60, seconds=60),
        sessions=[70, 700],
    )

    assert [70, 700] == [row["sessions"] for row in rows]
    assert rows[1]["replicas"] / rows[0]["replicas"] == pytest.approx(10, rel=0.1)
    assert np.all([row["refused"] == 0 for row in rows])


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (ClusterConfig, {"max_sessions": 0}, "expected max_sessions above 0, got 0"),
        (ClusterConfig, {"max_sessions": 1, "drain_seconds": -1}, "drain_seconds of 0 or more"),
        (
            ClusterConfig,
            {"max_sessions": 1, "min_replicas": 3, "max_replicas": 2},
            "expected max_replicas of at least min_replicas (3), got 2",
        ),
        (LoadProfile, {"sessions": 0.0}, "expected sessions above 0, got 0.0"),
        (LoadProfile, {"sessions": float("nan")}, "expected sessions above 0, got nan"),
        (LoadProfile, {"sessions": 1.0, "mean_seconds": float("inf")}, "mean_seconds above 0"),
    ],
)
def test_a_value_out_of_range_is_named(kind, fields, message):
    """The message has the name, what was expected and what came."""
    with pytest.raises(DataError) as refused:
        kind(**fields)

    assert message in str(refused.value)

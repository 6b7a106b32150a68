"""The recipes for Kubernetes: they agree with the server, with Ray and with themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from wlk_serve.cli import serve
from wlk_serve.ops.running import _FLUSH_SECONDS
from wlk_serve.ray.settings import ReplicaSettings

KUBERNETES = Path(__file__).resolve().parents[1] / "kubernetes"


def objects(name):
    """Return the objects of a file by their kind."""
    text = (KUBERNETES / name).read_text(encoding="utf-8")
    return {found["kind"]: found for found in yaml.safe_load_all(text)}


def container(pod):
    """Return the only container of a pod template."""
    (only,) = pod["spec"]["containers"]
    return only


@pytest.fixture
def replicas():
    """Return the objects of the plain replicas."""
    return objects("replicas.yaml")


@pytest.fixture
def pod(replicas):
    """Return the pod template of the plain replicas."""
    return replicas["Deployment"]["spec"]["template"]


@pytest.fixture
def ray_service():
    """Return the specification of the RayService."""
    return objects("rayservice.yaml")["RayService"]["spec"]


def options_of(arguments):
    """Return the parameters that the command reads from arguments; it fails on unknown ones."""
    return serve.make_context("wlk-serve", list(arguments)).params


def test_the_command_understands_the_arguments(pod):
    """They follow those of the image's entry point."""
    options = options_of(["--host", "0.0.0.0", "--api-key-env", "X", *container(pod)["args"]])  # noqa: S104 -- an argument

    assert ("faster-whisper", "digits") == (options["backend"], options["model"])
    assert options["port"] == container(pod)["ports"][0]["containerPort"]


def test_the_pod_is_stopped_after_the_drain_and_the_last_words(pod):
    """Kubernetes kills it after the grace period."""
    drain = options_of(container(pod)["args"])["drain_seconds"]

    assert drain + _FLUSH_SECONDS < pod["spec"]["terminationGracePeriodSeconds"]


def test_probes_ask_the_addresses_of_health(pod):
    """A server that is busy or drains is not restarted; one that drains gets no connections."""
    probes = {name: container(pod)[f"{name}Probe"] for name in ("startup", "liveness", "readiness")}
    paths = {name: probe["httpGet"]["path"] for name, probe in probes.items()}
    names = {port["name"] for port in container(pod)["ports"]}

    assert {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"} == paths
    assert names == {probe["httpGet"]["port"] for probe in probes.values()}
    assert probes["readiness"]["timeoutSeconds"] >= 10  # what a canary may take


def test_service_and_autoscaler_find_the_pods(replicas, pod):
    """By their labels and by the name of the Deployment."""
    labels, port = pod["metadata"]["labels"], replicas["Service"]["spec"]["ports"][0]
    target = replicas["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    deployment = replicas["Deployment"]

    assert labels == replicas["Service"]["spec"]["selector"]
    assert labels == deployment["spec"]["selector"]["matchLabels"]
    assert port["targetPort"] == container(pod)["ports"][0]["name"]
    assert (deployment["kind"], deployment["metadata"]["name"]) == (target["kind"], target["name"])


def test_the_pod_runs_without_rights(pod):
    """The root is read-only; what is written has a volume."""
    security, mounts = container(pod)["securityContext"], container(pod)["volumeMounts"]

    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert security["readOnlyRootFilesystem"] is True
    assert {"/models", "/tmp"} == {mount["mountPath"] for mount in mounts}  # noqa: S108 -- a mount
    assert {mount["name"] for mount in mounts} == {
        volume["name"] for volume in pod["spec"]["volumes"]
    }


def test_the_settings_of_ray_are_valid_and_its_pods_outlive_the_sessions(ray_service):
    """A pod that is killed earlier would cut sessions."""
    (application,) = yaml.safe_load(ray_service["serveConfigV2"])["applications"]
    settings = ReplicaSettings.parse(application["args"])
    cluster = ray_service["rayClusterConfig"]
    templates = [group["template"] for group in cluster["workerGroupSpecs"]]
    templates.append(cluster["headGroupSpec"]["template"])
    cpus = [float(container(pod)["resources"]["limits"]["cpu"]) for pod in templates[:-1]]

    assert all(
        settings.session_seconds + 60 < pod["spec"]["terminationGracePeriodSeconds"]
        for pod in templates
    )
    assert settings.num_cpus <= min(cpus)
    assert settings.api_key_env in {
        variable["name"] for pod in templates for variable in container(pod)["env"]
    }


def test_ray_accepts_the_configuration(ray_service):
    """Ray's own schema reads it, and the deployment has the name that `build` gives."""
    schema = pytest.importorskip("ray.serve.schema", reason="runs in the session: nox -s ray")
    from wlk_serve.ray import build  # noqa: PLC0415 -- with Ray only

    config = schema.ServeDeploySchema.model_validate(yaml.safe_load(ray_service["serveConfigV2"]))
    (application,) = config.applications
    built = build(application.args)

    assert "wlk_serve.ray:build" == application.import_path
    assert [built._bound_deployment.name] == [each.name for each in application.deployments]
    assert 8000 == config.http_options.port

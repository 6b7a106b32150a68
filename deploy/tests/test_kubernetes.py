"""The Kubernetes files agree with the server, with Ray and with each other."""

from __future__ import annotations

from pathlib import Path
import re

import pytest
import yaml

from wlk_serve.cli import serve
from wlk_serve.ops.running import _FLUSH_SECONDS
from wlk_serve.ray import ReplicaSettings

KUBERNETES = Path(__file__).resolve().parents[1] / "kubernetes"


def objects(name):
    """Return the objects in a file, by kind."""
    text = (KUBERNETES / name).read_text(encoding="utf-8")
    return {found["kind"]: found for found in yaml.safe_load_all(text)}


REPLICAS = objects("replicas.yaml")
POD = REPLICAS["Deployment"]["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
RAY = objects("rayservice.yaml")["RayService"]["spec"]


def test_the_command_understands_the_arguments_and_the_pod_outlives_the_drain():
    """Arguments follow the image's entry point; a pod is killed after its grace period."""
    arguments = ["--host", "0.0.0.0", "--api-key-env", "X", *CONTAINER["args"]]  # noqa: S104 -- an argument
    options = serve.make_context("wlk-serve", arguments).params  # fails on unknown ones
    grace = POD["spec"]["terminationGracePeriodSeconds"]

    assert (options["backend"], options["model"]) == ("faster-whisper", "digits")
    assert options["port"] == CONTAINER["ports"][0]["containerPort"]
    assert options["drain_seconds"] + _FLUSH_SECONDS < grace


def test_probes_ask_the_addresses_of_health():
    """A busy or draining server is not restarted; a draining one gets no new connections."""
    probes = {name: CONTAINER[f"{name}Probe"] for name in ("startup", "liveness", "readiness")}
    paths = {name: probe["httpGet"]["path"] for name, probe in probes.items()}
    names = {port["name"] for port in CONTAINER["ports"]}

    assert paths == {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}
    assert {probe["httpGet"]["port"] for probe in probes.values()} == names
    assert probes["readiness"]["timeoutSeconds"] >= 10  # what a canary may take


def test_service_and_autoscaler_find_the_pods():
    """They use the pods' labels and the name of the Deployment."""
    labels, deployment = POD["metadata"]["labels"], REPLICAS["Deployment"]
    service = REPLICAS["Service"]["spec"]
    target = REPLICAS["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]

    assert labels == service["selector"] == deployment["spec"]["selector"]["matchLabels"]
    assert service["ports"][0]["targetPort"] == CONTAINER["ports"][0]["name"]
    assert (deployment["kind"], deployment["metadata"]["name"]) == (target["kind"], target["name"])


def test_the_pod_runs_without_rights():
    """The root is read-only, and every writable path is a volume."""
    mounts, volumes = CONTAINER["volumeMounts"], POD["spec"]["volumes"]

    assert POD["spec"]["securityContext"]["runAsNonRoot"] is True
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"] is True
    assert {mount["mountPath"] for mount in mounts} == {"/models", "/tmp"}  # noqa: S108 -- a mount
    assert {mount["name"] for mount in mounts} == {volume["name"] for volume in volumes}


def test_the_settings_of_ray_are_valid_and_its_pods_outlive_the_sessions():
    """A pod that is killed earlier would cut off sessions."""
    (application,) = yaml.safe_load(RAY["serveConfigV2"])["applications"]
    settings = ReplicaSettings.parse(application["args"])
    cluster = RAY["rayClusterConfig"]
    workers = [group["template"]["spec"] for group in cluster["workerGroupSpecs"]]
    specs = [*workers, cluster["headGroupSpec"]["template"]["spec"]]
    needed = settings.session_seconds + 60

    assert all(needed < spec["terminationGracePeriodSeconds"] for spec in specs)
    for spec in workers:
        assert settings.num_cpus <= float(spec["containers"][0]["resources"]["limits"]["cpu"])
    variables = {variable["name"] for spec in specs for variable in spec["containers"][0]["env"]}
    assert settings.api_key_env in variables


def test_the_pods_of_ray_run_the_image_of_its_container_file():
    """The image, the packages in it and the cluster have the same version of Ray."""
    text = (KUBERNETES.parent / "Containerfile.ray").read_text(encoding="utf-8")
    cluster = RAY["rayClusterConfig"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    images = {each["template"]["spec"]["containers"][0]["image"] for each in groups}

    assert set(re.findall(r"ray(?:\[serve\]==|:)([\d.]+)", text)) == {cluster["rayVersion"]}
    assert set(re.findall(r"docker build -t (\S+)", text)) == images


def test_ray_accepts_the_configuration():
    """Ray's own schema accepts it, and the deployment has the name that `build` gives it."""
    schema = pytest.importorskip("ray.serve.schema", reason="runs in: nox -s 'clients(ray)'")
    from wlk_serve.ray import build  # noqa: PLC0415 -- with Ray only

    config = schema.ServeDeploySchema.model_validate(yaml.safe_load(RAY["serveConfigV2"]))
    (application,) = config.applications
    built = build(application.args)

    assert application.import_path == "wlk_serve.ray:build"
    assert [built._bound_deployment.name] == [each.name for each in application.deployments]
    assert config.http_options.port == 8000

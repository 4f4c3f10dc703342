"""Which source the settings name, and what tells it from another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config import incluster_config

from bridge.config import BridgeSettings
from bridge.lease import Terms
from bridge.lease_settings import LeaseSettings
from bridge.origin import DirectoryOrigin, origin_of
from bridge.sources.kubernetes import access
from bridge.sources.kubernetes.failures import ApiFailure, Refusal
from bridge.sources.kubernetes.identity import cluster_uid
from bridge.sources.kubernetes.origin import ClusterOrigin
from nodecast.errors import SettingsError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def no_cluster_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a pod nor a kubeconfig of whoever runs the tests."""
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(access, "_TOKEN", tmp_path / "no token")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """A kubeconfig with the contexts `near` (current) and `far`. Nothing listens there."""
    contexts = {"near": "https://near.test:6443", "far": "https://far.test:6443"}
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "near",
                "clusters": [
                    {"name": name, "cluster": {"server": url}} for name, url in contexts.items()
                ],
                "users": [{"name": "me", "user": {"token": "t"}}],
                "contexts": [
                    {"name": name, "context": {"cluster": name, "user": "me"}} for name in contexts
                ],
            }
        )
    )
    return path


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a pod is given."""
    token, certificate = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("t")
    (tmp_path / "namespace").write_text("pods\n")
    monkeypatch.setattr(access, "_NAMESPACE", tmp_path / "namespace")
    certificate.write_text("any")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(access, "_TOKEN", token)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(certificate))
    # No request is made, so the certificate need not be one.
    monkeypatch.setattr("kubernetes.client.rest.RESTClientObject", lambda _: None)


def named(**settings: Any) -> str:
    return str(origin_of(BridgeSettings(**settings)))


# Which source.


def test_manifests_are_a_directory(tmp_path: Path) -> None:
    origin = origin_of(BridgeSettings(manifests=str(tmp_path)))
    assert isinstance(origin, DirectoryOrigin)
    assert str(origin) == f"manifests {tmp_path}"


@pytest.mark.usefixtures("pod")
def test_manifests_come_first_in_a_pod_too(tmp_path: Path) -> None:
    assert named(manifests=str(tmp_path)) == f"manifests {tmp_path}"


def test_a_kubeconfig_is_a_cluster_in_its_current_context(kubeconfig: Path) -> None:
    assert isinstance(origin_of(BridgeSettings(kubeconfig=str(kubeconfig))), ClusterOrigin)
    assert named(kubeconfig=str(kubeconfig)) == (
        f"https://near.test:6443 (kubeconfig {kubeconfig})"
    )


def test_a_context_chooses_another_cluster_of_the_kubeconfig(kubeconfig: Path) -> None:
    assert named(kubeconfig=str(kubeconfig), context="far") == (
        f"https://far.test:6443 (kubeconfig {kubeconfig}, context far)"
    )


@pytest.mark.usefixtures("pod")
def test_in_a_pod_its_own_cluster_is_the_source() -> None:
    assert named() == "https://10.0.0.1:443 (service account of this pod)"
    assert named(namespace="ns") == (
        "https://10.0.0.1:443 (service account of this pod; only in ns)"
    )


@pytest.mark.usefixtures("pod")
def test_a_kubeconfig_comes_before_the_pod(kubeconfig: Path) -> None:
    assert named(kubeconfig=str(kubeconfig)).startswith("https://near.test:6443")


def test_a_host_name_in_the_environment_alone_makes_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(SettingsError, match="no source"):
        named()


def test_no_source_is_told_what_to_give() -> None:
    with pytest.raises(SettingsError, match="no source: give --manifests DIR, or --kubeconfig"):
        named()


@pytest.mark.parametrize("also", ["kubeconfig", "context", "namespace"])
def test_two_sources_are_one_too_many(also: str) -> None:
    with pytest.raises(SettingsError, match=f"{also}: there are manifests too: give one source"):
        BridgeSettings(manifests="m", **{also: "x"})


@pytest.mark.parametrize(
    ("content", "context"),
    [
        (None, None),
        ("", None),
        ("a: [", None),
        ("5", None),
        ("[]", None),
        ("{}", None),
        ("clusters: 5\ncurrent-context: x\ncontexts: 7", None),
        ("current-context: x\ncontexts: [{name: x, context: 5}]", None),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_named_in_the_error(
    tmp_path: Path, content: str | None, context: str | None
) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingsError, match=f"kubeconfig {path}") as caught:
        named(kubeconfig=str(path), context=context)
    assert "\n" not in str(caught.value)


def test_a_context_that_is_not_there_is_named_in_the_error(kubeconfig: Path) -> None:
    with pytest.raises(SettingsError, match="context lost"):
        named(kubeconfig=str(kubeconfig), context="lost")


# What tells it from another.


def test_a_directory_is_called_manifests_unless_the_settings_say_otherwise() -> None:
    assert origin_of(BridgeSettings(manifests="m")).identity() == "manifests"
    assert origin_of(BridgeSettings(manifests="m", source="yard")).identity() == "yard"


def test_a_cluster_is_not_asked_who_it_is_where_the_settings_say_so(kubeconfig: Path) -> None:
    settings = BridgeSettings(kubeconfig=str(kubeconfig), source="yard")
    assert origin_of(settings).identity() == "yard"


class Answering:
    """An API that answers, or raises, one thing."""

    host = "https://near.test"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def read(self, path: str) -> Any:
        assert path == "/api/v1/namespaces/kube-system"
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_a_cluster_is_known_by_the_uid_of_its_kube_system_namespace() -> None:
    assert cluster_uid(Answering({"metadata": {"uid": "u-1"}})) == "u-1"  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [403, 404])
def test_where_the_uid_may_not_be_read_the_settings_must_say_it(status: int) -> None:
    api = Answering(Refusal(status, "No", "not for you"))
    with pytest.raises(SettingsError, match=r"not for you.*grant get on it, or give .* source"):
        cluster_uid(api)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "error", [Refusal(401, "Unauthorized", "x"), Refusal(500, "X", "x"), ApiFailure("down")]
)
def test_what_may_pass_is_no_matter_of_settings(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        cluster_uid(Answering(error))  # type: ignore[arg-type]
    assert caught.value is error


@pytest.mark.parametrize(
    "answer", [{}, {"metadata": None}, {"metadata": []}, {"metadata": {"uid": ""}}]
)
def test_an_answer_without_a_uid_is_no_identity(answer: Any) -> None:
    with pytest.raises(ApiFailure, match=r"https://near\.test: .* has no uid"):
        cluster_uid(Answering(answer))  # type: ignore[arg-type]


# The Lease.


def leased(**settings: Any) -> tuple[str, Terms] | None:
    """Where the Lease is, and its times; None: there is none."""
    origin = origin_of(BridgeSettings(**settings))
    lease = getattr(origin, "_lease", None)
    return None if lease is None else (str(lease[0]), lease[1])


@pytest.mark.usefixtures("pod")
def test_in_a_pod_there_is_a_lease_in_its_namespace_named_after_the_bridge() -> None:
    assert leased() == ("pods/nodecast-bridge-default", Terms(15, 10, 2))
    assert leased(bridge="north", lease=LeaseSettings(duration=30)) == (
        "pods/nodecast-bridge-north",
        Terms(30, 10, 2),
    )
    assert leased(lease=LeaseSettings(name="mine", namespace="there")) == (
        "there/mine",
        Terms(15, 10, 2),
    )


@pytest.mark.usefixtures("pod")
def test_the_lease_may_be_left_out_in_a_pod() -> None:
    assert leased(lease=LeaseSettings(mode="off")) is None


def test_with_a_kubeconfig_there_is_a_lease_only_where_it_is_asked_for(kubeconfig: Path) -> None:
    path = str(kubeconfig)
    assert leased(kubeconfig=path) is None
    asked = LeaseSettings(mode="on", namespace="there")
    assert leased(kubeconfig=path, lease=asked) == (
        "there/nodecast-bridge-default",
        Terms(15, 10, 2),
    )
    with pytest.raises(SettingsError, match=r"lease\.namespace: outside of a pod it must be given"):
        leased(kubeconfig=path, lease=LeaseSettings(mode="on"))


@pytest.mark.usefixtures("pod")
def test_a_pod_whose_namespace_cannot_be_read_is_told_to_give_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(access, "_NAMESPACE", tmp_path / "nothing")
    with pytest.raises(SettingsError, match=r"lease\.namespace: the pod's own cannot be read"):
        leased()


def test_a_directory_has_no_lease() -> None:
    assert leased(manifests="m") is None
    with pytest.raises(SettingsError, match=r"lease\.mode: a directory of manifests has no Lease"):
        BridgeSettings(manifests="m", lease=LeaseSettings(mode="on"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"renew": 15.0}, "lease.renew: must be shorter than lease.duration"),
        ({"retry": 8.4}, "lease.retry: must be shorter than lease.renew by a fifth or more"),
        ({"name": "No Name"}, "lease: name 'No Name' is not a DNS-1123 subdomain"),
        ({"namespace": "a.b"}, "lease: namespace 'a.b' is not a DNS-1123 label"),
    ],
)
def test_what_no_lease_can_have_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        BridgeSettings(lease=LeaseSettings(**wrong))
    assert str(refused.value).startswith(said)


# What is imported for it.


def python(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# Runs the bridge as if the package that is named first were not installed.
LACKING = """
import sys
absent = sys.argv.pop(1)
class Absent:
    def find_spec(self, name, *_):
        if name == absent:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
from bridge.__main__ import main
main()
"""


def test_manifests_do_without_the_kubernetes_package(manifests: Path) -> None:
    done = python(LACKING, "kubernetes", "render", "--manifests", manifests)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("package", ["kubernetes", "urllib3"])
def test_a_cluster_without_the_package_for_it_says_what_to_install(
    package: str, kubeconfig: Path
) -> None:
    done = python(LACKING, package, "check", "--kubeconfig", kubeconfig)
    assert done.returncode == 69
    assert done.stderr == f"nodecast-bridge: {package} is missing: pip install 'nodecast[bridge]'\n"

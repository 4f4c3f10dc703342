"""Which API server, and as whom: the official client's configuration.

Authentication, TLS and proxies (HTTPS_PROXY, NO_PROXY) are the client's work. What it reads from
files is read anew whenever a configuration is made, so making one is how rotated credentials of
any kind come in.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from kubernetes.client import Configuration
from kubernetes.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
)
from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, KubeConfigMerger

from nodecast.errors import SettingsError

_SERVICE_HOST = "KUBERNETES_SERVICE_HOST"
_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_NAMESPACE = _TOKEN.with_name("namespace")

_WAYS = ("token", "tokenFile", "client-certificate", "client-certificate-data", "username")
"""What a user of a kubeconfig may have, apart from a plug-in."""

UNREADABLE = (
    ConfigException,
    yaml.YAMLError,
    OSError,
    ValueError,
    RecursionError,
    StopIteration,
    TypeError,
    KeyError,
    AttributeError,
)
"""What the client's loader raises for a file that it cannot use, whatever is wrong in it."""


@dataclass(frozen=True, slots=True)
class Access:
    """A server and a user. None of both: what the pod that this runs in is given, or, outside of
    a pod, the kubeconfig that kubectl would take."""

    kubeconfig: str | None = None
    context: str | None = None

    @property
    def in_cluster(self) -> bool:
        return self.kubeconfig is None and self.context is None and in_pod()

    def configuration(self) -> Configuration:
        """The client's configuration, from the files as they are now. Raises SettingsError."""
        if self.kubeconfig is not None and not os.path.isfile(self.kubeconfig):
            what = "is a directory" if os.path.isdir(self.kubeconfig) else "there is no such file"
            raise SettingsError(f"{self}: {what}")
        configuration = Configuration()
        try:
            if self.in_cluster:
                load_incluster_config(configuration)
            else:
                load_kube_config(
                    self.kubeconfig,
                    self.context,
                    client_configuration=configuration,
                    persist_config=False,
                )
                self._check_user(configuration)
        except UNREADABLE as error:
            raise SettingsError(f"{self}: {_words(error)}{self._contexts()}") from error
        if not _is_server(str(configuration.host)):
            raise SettingsError(f"{self}: names no server: give it as https://host:port")
        # The client's own retries sleep inside the call and hide a 429.
        configuration.retries = False
        return configuration

    def _contexts(self) -> str:
        """The contexts that there are, where the one asked for is none of them."""
        if self.context is None:
            return ""
        try:
            names = [each["name"] for each in list_kube_config_contexts(self.kubeconfig)[0]]
        except UNREADABLE:
            return ""
        return "" if self.context in names else f": its contexts are {', '.join(map(str, names))}"

    def _check_user(self, configuration: Configuration) -> None:
        """Where the context's user is not there, or its plug-in fails, the client goes on as
        nobody. Raises SettingsError."""
        contexts, active = list_kube_config_contexts(self.kubeconfig)
        if self.context is not None:
            active = next(each for each in contexts if each["name"] == self.context)
        name = active["context"].get("user")
        if not name:
            return
        merged = KubeConfigMerger(self.kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION).config
        user = merged["users"].get_with_name(name, safe=True)
        if user is None:
            raise SettingsError(f"{self}: has no user '{name}', which the context names")
        if configuration.cert_file or has_token(configuration.api_key.get("BearerToken")):
            return
        if "exec" in user["user"]:
            raise SettingsError(
                f"{self}: the plug-in of the user '{name}' gave no credentials: run it by hand"
            )
        if any(way in user["user"] for way in _WAYS):
            raise SettingsError(
                f"{self}: the credentials of the user '{name}' are empty: is a file half written?"
            )

    def __str__(self) -> str:
        if self.in_cluster:
            return "service account of this pod"
        place = self.kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
        return f"kubeconfig {place}" + (f", context {self.context}" if self.context else "")


def has_token(header: str | None) -> bool:
    """Whether an `authorization` header has more than the word before the token."""
    return len((header or "").split()) > 1


def _is_server(host: str) -> bool:
    try:
        parts = urlsplit(host)
        (parts.hostname or "").encode("idna")
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port beyond all ports, or a name with an empty part
        return False


def in_pod() -> bool:
    """Whether this process runs in a pod that may talk to its API server."""
    return bool(os.environ.get(_SERVICE_HOST)) and _TOKEN.exists()


def pod_namespace() -> str:
    """The namespace of the pod that this runs in. Raises SettingsError where it cannot be read."""
    try:
        return _NAMESPACE.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"lease.namespace: the pod's own cannot be read from {_NAMESPACE}: give it"
        ) from error


def _words(error: Exception) -> str:
    """What is wrong with a file, without anything that may be a secret in it."""
    if isinstance(error, yaml.composer.ComposerError):
        return "is no kubeconfig"  # several documents
    if isinstance(error, yaml.YAMLError):
        mark = getattr(error, "problem_mark", None)
        return "is no YAML" + (f" (line {mark.line + 1})" if mark is not None else "")
    if isinstance(error, TypeError | KeyError | AttributeError | UnicodeDecodeError):
        return "is no kubeconfig"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}"
    # The client names a place in the file by what stands there, from a brace on.
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return text.partition("{")[0].rstrip("/ ")

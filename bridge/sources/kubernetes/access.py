"""Which API server, and as whom: the official client's configuration.

Authentication, TLS and proxies (HTTPS_PROXY, NO_PROXY) are the client's work. What it reads from
files is read anew whenever a configuration is made, so making one is how rotated credentials of
any kind come in.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from nodecast.errors import SettingsError

_SERVICE_HOST = "KUBERNETES_SERVICE_HOST"
_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

UNREADABLE = (
    ConfigException,
    yaml.YAMLError,
    OSError,
    ValueError,
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
        except UNREADABLE as error:
            raise SettingsError(f"{self}: {_first_line(error)}") from error
        # The client's own retries sleep inside the call and hide a 429.
        configuration.retries = False
        return configuration

    def __str__(self) -> str:
        if self.in_cluster:
            return "service account of this pod"
        place = self.kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
        return f"kubeconfig {place}" + (f", context {self.context}" if self.context else "")


def in_pod() -> bool:
    """Whether this process runs in a pod that may talk to its API server."""
    return bool(os.environ.get(_SERVICE_HOST)) and _TOKEN.exists()


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]

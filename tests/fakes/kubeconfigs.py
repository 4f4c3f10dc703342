"""A kubeconfig for the fake API server, as JSON (which is YAML too)."""

from __future__ import annotations

import json
from pathlib import Path


def text(url: str, user: str, token: str, *, token_file: Path | None, namespace: str | None) -> str:
    """With `token` in it, or the name of `token_file` (written if it is not there yet)."""
    credentials = {"token": token}
    if token_file is not None:
        if not token_file.exists():
            token_file.write_text(token)
        credentials = {"tokenFile": str(token_file)}
    context = {"cluster": "fake", "user": user}
    if namespace is not None:
        context["namespace"] = namespace
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fake", "cluster": {"server": url}}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "fake", "context": context}],
        "current-context": "fake",
    }
    return json.dumps(config, indent=1) + "\n"

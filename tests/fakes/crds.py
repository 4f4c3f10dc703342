"""Minimal CRDs of the built-in kinds, for tests: any spec and status, with the status subresource.

Pure.
"""

from __future__ import annotations

from tests.fakes.resources import Body

KINDS = (
    "Dataset",
    "Model",
    "JointInferenceService",
    "FederatedLearningJob",
    "IncrementalLearningJob",
    "LifelongLearningJob",
)

_ANYTHING: Body = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def plural_of(kind: str) -> str:
    return f"{kind.lower()}s"


def crd(
    kind: str,
    group: str = "sedna.io",
    *,
    version: str = "v1alpha1",
    status: bool = True,
    schema: Body | None = None,
) -> Body:
    """The CRD of a namespaced kind; `schema` None takes anything. `status`: has the subresource."""
    plural = plural_of(kind)
    served: Body = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or _ANYTHING},
    }
    if status:
        served["subresources"] = {"status": {}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [served]},
    }


def all_crds(group: str = "sedna.io") -> list[Body]:
    """Those of the six built-in kinds."""
    return [crd(kind, group) for kind in KINDS]

# The bridge. Build at the root: docker build -f docker/bridge.Dockerfile -t nodecast-bridge:0.1.0 .
FROM python:3.11-slim AS build
WORKDIR /src
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY nodecast nodecast
COPY bridge bridge
COPY agent agent
RUN python -m venv /opt/nodecast && /opt/nodecast/bin/pip install --no-cache-dir '.[bridge]'

FROM python:3.11-slim
# A number, so that Kubernetes can see that it is not root. The bridge keeps nothing on disk. What it
# serves is said by who runs it: `--manifests DIR`, or nothing in a pod, where it is the cluster.
RUN useradd --system --uid 10001 --home-dir /nonexistent nodecast
COPY --from=build /opt/nodecast /opt/nodecast
# The socket of its API: /tmp is all that it may write to. `docker exec`, or `kubectl exec`, of
# `nodecast-bridge approve` finds it there.
ENV PATH=/opt/nodecast/bin:$PATH PYTHONUNBUFFERED=1 RUNTIME_DIRECTORY=/tmp
USER 10001
ENTRYPOINT ["nodecast-bridge"]
CMD ["run"]

# The agent of one node. Build at the root: docker build -f docker/agent.Dockerfile -t nodecast-agent .
FROM python:3.11-slim AS build
WORKDIR /src
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY nodecast nodecast
COPY bridge bridge
COPY agent agent
RUN python -m venv /opt/nodecast && /opt/nodecast/bin/pip install --no-cache-dir .

FROM python:3.11-slim
# A number, so that Kubernetes can see that it is not root. A new volume on /var/lib/nodecast takes
# its owner from the image.
RUN useradd --system --uid 10001 --home-dir /var/lib/nodecast --create-home nodecast \
    && mkdir -p /etc/nodecast/models
COPY --from=build /opt/nodecast /opt/nodecast
ENV PATH=/opt/nodecast/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
VOLUME /var/lib/nodecast
ENTRYPOINT ["nodecast-agent"]
CMD ["run", "--state-dir", "/var/lib/nodecast", "--model-config-dir", "/etc/nodecast/models"]

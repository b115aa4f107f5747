# Open-Token in a container, without root:
#   docker build --target cli -t open-token .       the command line
#   docker build -t open-token-server .             the same with the session server
# docs/how-to/install.md says how to run them.
FROM python:3.11-slim AS source
COPY pyproject.toml constraints.txt hashes.txt README.md LICENSE /src/
COPY src /src/src
RUN python -m venv /opt/open-token

FROM source AS cli-packages
RUN /opt/open-token/bin/pip install --no-cache-dir -c /src/constraints.txt /src

# The hashes are those of all extras, so that this image gets the files that were checked, and no others.
FROM source AS server-packages
RUN /opt/open-token/bin/pip install --no-cache-dir --require-hashes -r /src/hashes.txt \
    && /opt/open-token/bin/pip install --no-cache-dir --no-deps -c /src/constraints.txt /src

FROM python:3.11-slim AS base
RUN useradd --create-home --uid 10001 opentoken && install -d -o opentoken -g opentoken -m 0700 /data
# OPEN_TOKEN_HOME is a folder, not a token.
# hadolint ignore=DL3064
ENV PATH=/opt/open-token/bin:$PATH \
    OPEN_TOKEN_HOME=/data \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /work
ENTRYPOINT ["open-token"]
CMD ["--help"]

FROM base AS cli
COPY --from=cli-packages /opt/open-token /opt/open-token
USER 10001

FROM base AS server
# Commands of agents run in bubblewrap. Its version is that of the base image.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap \
    && rm -rf /var/lib/apt/lists/*
COPY --from=server-packages /opt/open-token /opt/open-token
USER 10001
VOLUME /data
EXPOSE 8020
CMD ["serve", "--host", "0.0.0.0"]

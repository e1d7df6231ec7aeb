# CPU image: docker build -t liveanchor . && docker run --rm -p 127.0.0.1:8007:8007 -p 40000-40100:40000-40100/udp \
#   -e LIVEANCHOR_TOKEN=... liveanchor
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE NOTICE CHANGELOG.md ./
COPY streamer streamer
COPY engines engines
COPY avatars avatars
COPY web web
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.11-slim-bookworm AS cpu
RUN apt-get update \
 && apt-get install -y --no-install-recommends flite \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 anchor \
 && mkdir -p /app/results/v15/avatars \
 && chown -R anchor /app
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels liveanchor
USER anchor
WORKDIR /app
EXPOSE 8007/tcp 40000-40100/udp
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8007/healthz', timeout=2)"]
# Listening beyond loopback needs a token: pass LIVEANCHOR_TOKEN.
ENTRYPOINT ["liveanchor", "serve", "--host", "0.0.0.0", "--udp-ports", "40000-40100", "--avatars", "/app/results/v15/avatars"]

# seqd with the bundled model.
#   docker build -t seqd --build-arg VERSION=$(cat VERSION) .
# Another model:
#   docker run -v /models/mine:/model:ro seqd --model /model
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
WORKDIR /source
COPY tools/deps.sh tools/
RUN tools/deps.sh run
COPY Makefile VERSION ./
COPY include include
COPY src src
ARG COMMIT=unknown
RUN make COMMIT="${COMMIT}" install DESTDIR=/image && strip /image/usr/local/bin/seqd

FROM ${BASE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        libgnutls30 libjansson4 libmicrohttpd12 libopenblas0-pthread libpcre2-8-0 libutf8proc2 \
        libxxhash0 libyaml-0-2 \
    && rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log
COPY --from=build /image /
COPY models/g2p /usr/local/share/seqd/g2p
ARG COMMIT=unknown
ARG VERSION=unknown
LABEL org.opencontainers.image.title="seqd" \
      org.opencontainers.image.description="Encoder-decoder Transformers on CPUs over HTTP" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
# A container's port is reached from outside of it, so the daemon must listen beyond its loopback;
# who publishes the port decides who may ask.  The delay lets a load balancer see /readyz first.
ENV SEQD_LISTEN=0.0.0.0:8080 \
    SEQD_SERVER_ALLOW_UNAUTHENTICATED=true \
    SEQD_SERVER_DRAIN_DELAY_MS=5000
USER 10001:10001
EXPOSE 8080
STOPSIGNAL SIGTERM
# It sees this environment, but not the daemon's command line: in a container file and address
# are SEQD_CONFIG and SEQD_LISTEN.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["seqd", "health"]
ENTRYPOINT ["seqd"]
CMD ["--model", "/usr/local/share/seqd/g2p"]

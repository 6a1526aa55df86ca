# The command line: docker build -t mercer . ; docker run --rm -v "$PWD:/data" mercer fit /data/table.csv --target price
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/mercer-*.whl)[cli]" && rm -r /wheels \
    && useradd --create-home mercer
USER mercer
WORKDIR /data
ENTRYPOINT ["mercer"]
CMD ["--help"]

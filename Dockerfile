# One image for both services of docker-compose.yml: a broker, and (target `spark`) the PySpark jobs.
FROM python:3.12-slim AS broker
WORKDIR /opt/barnabas
COPY requirements/run.txt requirements/run.txt
RUN pip install --no-cache-dir --require-hashes -r requirements/run.txt
COPY . .
RUN pip install --no-cache-dir --no-deps .
RUN useradd --create-home barnabas && install -d -o barnabas /var/lib/barnabas
USER barnabas
VOLUME /var/lib/barnabas
EXPOSE 9092
STOPSIGNAL SIGTERM
ENTRYPOINT ["barnabas"]
CMD ["serve", "--listen", "0.0.0.0:9092", "--data-dir", "/var/lib/barnabas"]

FROM broker AS spark
USER root
RUN apt-get update && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
COPY requirements/dev.txt requirements/dev.txt
RUN pip install --no-cache-dir --require-hashes -r requirements/dev.txt
USER barnabas
ENTRYPOINT ["python", "-m", "spark_jobs.flight_delays"]

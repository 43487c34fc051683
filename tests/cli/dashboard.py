#!/usr/bin/env python3
"""The Grafana dashboard and the examples: each query of the dashboard, asked of a Prometheus that scrapes an agent, finds
what it is about, and names only metrics that the agent serves; the examples are right as they are.

    dashboard.py VITRINE SPANS_SUBJECT PROFILE_SUBJECT EXAMPLES
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

VITRINE, SPANS, BURNER, EXAMPLES = sys.argv[1:]
from agents import Agent, equal, free_port, pairs_and_spans, profile_of, until  # noqa: E402


def check_examples():
    examples = sorted(pathlib.Path(EXAMPLES).glob("agent-*.toml"))
    assert len(examples) == 5, examples
    for path in examples:
        # ClickHouse is asked for a certificate's file and the like by no example; a spool may be anywhere.
        done = subprocess.run([VITRINE, "agent", "--check", path], capture_output=True, text=True, check=False)
        equal(f"exit code of {path.name}", (done.returncode, done.stderr), (0, ""))
    subprocess.run(["promtool", "check", "config", f"{EXAMPLES}/prometheus.yml"], check=True, stdout=subprocess.DEVNULL)
    print(f"{len(examples)} configurations of the agent, and that of Prometheus")


def queries(dashboard):
    """Panel -> queries. The form is what Grafana imports."""
    variables = {one["name"] for one in dashboard["templating"]["list"]}
    panels = dashboard["panels"]
    equal("ids of panels", len({panel["id"] for panel in panels}), len(panels))
    places = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & places and max(cells)[0] < 24, f"{panel['title']} overlaps"
        places |= cells
        if panel["type"] == "row":
            continue
        equal(f"data source of {panel['title']}", panel["datasource"], {"type": "prometheus", "uid": "${datasource}"})
        found = [target["expr"] for target in panel["targets"]]
        for query in found:
            assert set(re.findall(r"\$(\w+)", query)) <= variables | {"__rate_interval"}, query
        yield panel["title"], found


def settings(folder, program, burning):
    trace = f'[[trace]]\nfile = "{program}"\n'
    return profile_of(burning, "300ms") + f"""\
[export]
signals_url = "otlp+http://127.0.0.1:1"
[metrics]
by = ["tenant"]
label_values = 1
push = false
[agent]
listen = "127.0.0.1:0"
{trace}name = "ends"
probes = ["shop:end"]
count = true
by = ["tenant"]
label_values = 1
{trace}name = "amounts"
probes = ["shop:end"]
hist = "amount"
{pairs_and_spans(program)}"""


def main():
    check_examples()
    dashboard = json.loads(pathlib.Path(EXAMPLES, "grafana-dashboard.json").read_text())
    panels = dict(queries(dashboard))
    with tempfile.TemporaryDirectory() as folder:
        program = shutil.copy(SPANS, f"{folder}/subject")
        burning = shutil.copy(BURNER, f"{folder}/burner-{os.getpid()}")
        children = [subprocess.Popen([program, "1000000", "2000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True),
                    subprocess.Popen([burning, "burn acme", "wait globex"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)]
        for child in children:
            child.stdout.readline()
        agent = Agent(VITRINE, folder, settings(folder, program, pathlib.Path(burning).name))
        children[0].stdin.write("go\n")
        children[0].stdin.flush()
        config = pathlib.Path(folder, "prometheus.yml")
        config.write_text(re.sub("scrape_interval: .*", "scrape_interval: 1s",
                                 pathlib.Path(EXAMPLES, "prometheus.yml").read_text())
                          .replace("localhost:9495", f"127.0.0.1:{agent.port}"))
        port = free_port()
        with open(f"{folder}/log", "w", encoding="utf-8") as log:
            children.append(subprocess.Popen(
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{port}", "--enable-feature=exemplar-storage"], stderr=log))

        def ask(query):
            for name, value in (("__rate_interval", "10s"), ("instance", ".*"), ("trace", ".*"), ("job", ".*"), ("key", "tenant")):
                query = query.replace(f"${name}", value)
            url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
            try:
                with urllib.request.urlopen(url, timeout=5) as response:
                    return [row["value"][1] for row in json.load(response)["data"]["result"]]
            except urllib.error.HTTPError as error:
                if error.code == 503:  # it listens before it is ready
                    return None
                raise SystemExit(f"FAILED {query}: {error.read().decode()}") from None
            except (urllib.error.URLError, ConnectionError):
                return None

        try:
            number = 0
            for title, its in panels.items():
                for query in its:
                    until(f"{title}: {query}", lambda query=query: [one for one in ask(query) or [] if one != "NaN"] or None)
                    number += 1
            served = {re.sub(r"\{.*", "", name) for name in agent.page()}
            named = set(re.findall(r"\b(?:vitrine|process)_\w+", json.dumps(dashboard["panels"])))
            equal("metrics of the dashboard that the agent does not serve", named - served, set())
            until("values of the variables", lambda: ask("count by (instance, job) (vitrine_agent_up)") or None)
        finally:
            for child in children:
                child.kill()
                child.wait()
        agent.end(1)  # its spans have gone nowhere
    print(f"{number} queries of {len(panels)} panels find something")


if __name__ == "__main__":
    main()

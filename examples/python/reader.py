"""Starts an agent over HTTP and prints its text and the text of all its subagents. It needs no packages.

    RIVULET_TOKEN=… python3 reader.py http://127.0.0.1:8080 lead "Write a survey."
"""
import http.client, json, os, random, sys, time, urllib.error, urllib.request, uuid

url, agent, prompt = sys.argv[1:4]
cursor, applied, texts, printed, speaker, retry = -1, {}, {}, {}, None, 1.5


def request(path, body=None, **headers):
    headers["Authorization"] = f"Bearer {os.environ['RIVULET_TOKEN']}"
    data = json.dumps(body).encode() if body else None
    sent = urllib.request.Request(url + path, data, {"Content-Type": "application/json", **headers})
    return urllib.request.urlopen(sent, timeout=45)  # three heartbeats of silence: the connection is dead


def show(event, index, block, text):
    """Prints what a text has gained since it was printed last."""
    global speaker
    source, key = event.get("source") or {}, (event["task_id"], index, block)
    if event["task_id"] != speaker:
        print(f"\n{'  ' * source.get('depth', 0)}{source.get('agentId', agent)}: ", end="")
    speaker, texts[key] = event["task_id"], text
    print(text[printed.get(key, 0):], end="", flush=True)
    printed[key] = len(text)


def fold(event):
    """Takes one frame; returns True when the stream has ended, and None when an event is missing."""
    global cursor
    kind, task, before = event["type"], event.get("task_id"), applied.get(event.get("task_id"), -1)
    if kind == "task.snapshot" and event["through_task_seq"] > before:
        for index, item in enumerate(event["task"].get("output", [])):
            for block, part in enumerate(item.get("block_list", [])):
                show(event, index, block, part.get("text", ""))
    number = event.get("through_task_seq", event.get("task_seq", -1))
    if kind == "task.snapshot" or number == before + 1:
        applied[task] = max(number, before)
        cursor = event.get("sequence_number", event.get("through_sequence_number"))
    elif number <= before:  # a frame of the transport, or a duplicate
        return kind == "stream.closed" and event["final"]
    else:
        return None
    place = (event.get("output_index"), event.get("block_index"))
    if kind == "task.text.delta":
        show(event, *place, texts.get((task, *place), "") + event["delta"])
    elif kind == "task.text.done":
        show(event, *place, event["item"]["text"])
    elif kind in ("task.output_item.discarded", "task.failed", "task.approval.requested"):
        print(f"\n[{kind}: {event.get('reason') or event.get('message') or event.get('task')}]")
    return False


start, done, task_id = {"agent": agent, "input": prompt, "idempotency_key": str(uuid.uuid4())}, False, None
while not done:
    try:
        task_id = task_id or json.load(request("/v1/tasks", start))["id"]
        with request(f"/v1/tasks/{task_id}/events?starting_after={cursor}") as stream:
            done, data = stream.status == 204, b""
            while done is False and (line := stream.readline()):
                retry = int(line[6:]) / 1000 if line.startswith(b"retry:") else retry
                data = line[5:] if line.startswith(b"data:") else data
                if line == b"\n" and data:
                    done, data = fold(json.loads(data)), b""
    except urllib.error.HTTPError as error:
        if error.code < 500 and error.code != 429:
            sys.exit(error.read().decode())
    except (OSError, http.client.HTTPException):
        pass  # the connection broke, and the run continues
    if not done:
        time.sleep(retry * (0.5 + random.random()))
print()

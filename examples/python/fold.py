"""Folds a task stream into a tree and a document, by the rules of docs/protocol/fold.md."""
import json

from shapes import DEFS, Misfit, check, is_count, is_id, nests, read, read_object, utf16

ENDS = ("completed", "failed", "cancelled", "incomplete")
ENVELOPE = ("type", "task_id", "sequence_number", "task_seq", "prev_task_seq", "created_at", "source")
FIELDS = {
    "agent_id": "agentId", "session_id": "sessionId", "remote": "remote", "created_at": "createdAt",
    "completed_at": "completedAt", "usage": "usage", "subtree_usage": "subtreeUsage", "error": "error",
    "reason": "reason", "generate_reason": "generateReason", "structured": "structured", "metadata": "metadata",
}
KEPT = ("id", "children", "parked", "parentTaskId", "callId", "parentItemId", "parentOutputIndex",
        "mode", "remote", "agentId", "usage")
IMPLIED = {
    "reasoning": {"summary": []},
    "tool_call": {"call_id": "", "name": "", "arguments": ""},
    "tool_result": {"call_id": "", "block_list": []},
    "message": {"role": "assistant", "block_list": []},
}
LISTS = {"summary": "summary_index", "content": "content_index", "block_list": "block_index"}


def pick(event, *names):
    return {name: event[name] for name in names if name in event}


def closed(part):
    return {name: value for name, value in part.items() if name not in ("status", "partial_image_index")}


def is_open(entry, kind=None):
    return entry is not None and entry.get("status") == "in_progress" and kind in (None, entry.get("type"))


def normal(block, holder):
    """A block without the forms of the first version."""
    block = dict(block)
    if block.get("type") == "image_url":
        block["type"] = "image"
    if isinstance(block.get("id"), (int, float)):
        number = block.pop("id")
        if holder == "tool_result":
            block.setdefault("reference_id", number)
    return block


def own(item):
    item = dict(item)
    kind = item["type"]
    for name in {"reasoning": ["summary"], "tool_result": ["block_list"], "message": ["block_list"]}.get(kind, []):
        item.setdefault(name, [])
    if kind == "tool_call":
        item.setdefault("arguments", "")
    if isinstance(item.get("block_list"), list):
        item["block_list"] = [normal(block, kind) if isinstance(block, dict) else block for block in item["block_list"]]
    return item


class Tree:
    def __init__(self, legacy=False, filtered=False):
        self.legacy, self.filtered = legacy, filtered
        self.tasks, self.root = {}, None
        self.safe, self.ahead, self.snapshot_cursor = -1, [], None
        self.unknown = self.ignored = 0

    # One frame

    def fold(self, frame):
        if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
            self.ignored += 1
        elif frame["type"].startswith("stream.") or frame["type"] == "error":
            pass
        elif not is_id(frame.get("task_id")):
            self.ignored += 1
        elif frame["type"] == "task.snapshot":
            self.fold_snapshot(frame)
        elif self.legacy and frame.get("task_seq") is None:
            self.apply(frame)
        else:
            self.fold_numbered(frame)

    def fold_numbered(self, event):
        seq, number, previous = event.get("task_seq"), event.get("sequence_number"), event.get("prev_task_seq")
        fits = is_count(seq) and (is_count(number) or (number == -1 and not isinstance(number, bool)))
        if fits and previous is not None:
            fits = (is_count(previous) or (previous == -1 and not isinstance(previous, bool))) and previous < seq
        if not fits:
            self.ignored += 1
            return
        applied = self.tasks.get(event["task_id"], {}).get("appliedSeq", -1)
        early = self.previous(event) > applied
        if early and not nests(event):
            self.ignored += 1
            return
        self.note(number)
        if seq <= applied:
            return
        if early:
            parked = self.task(event["task_id"]).setdefault("parked", [])
            if all(other["task_seq"] != seq for other in parked):
                parked.append(event)
                parked.sort(key=lambda other: other["task_seq"])
            return
        self.apply(event)
        self.drain(event["task_id"])
        if self.filtered and not any("parked" in task for task in self.tasks.values()) and self.ahead:
            self.safe, self.ahead = self.ahead[-1][1], []

    @staticmethod
    def previous(event):
        return event["task_seq"] - 1 if event.get("prev_task_seq") is None else event["prev_task_seq"]

    def drain(self, task_id):
        task = self.tasks[task_id]
        while "parked" in task and self.previous(task["parked"][0]) <= task["appliedSeq"]:
            event = task["parked"].pop(0)
            if not task["parked"]:
                del task["parked"]
            if event["task_seq"] > task["appliedSeq"]:
                self.apply(event)

    def note(self, number):
        if self.snapshot_cursor is not None and number > self.snapshot_cursor:
            self.pass_snapshots()
        if number > self.safe:
            merged = []
            for start, end in sorted([*self.ahead, [number, number]]):
                if merged and start <= merged[-1][1] + 1:
                    merged[-1][1] = max(merged[-1][1], end)
                else:
                    merged.append([start, end])
            self.ahead = merged
        self.advance()

    def advance(self):
        while self.ahead and self.ahead[0][0] <= self.safe + 1:
            self.safe = max(self.safe, self.ahead.pop(0)[1])

    def pass_snapshots(self):
        self.safe, self.snapshot_cursor = max(self.safe, self.snapshot_cursor), None
        self.advance()

    # Apply an event

    def task(self, task_id):
        return self.tasks.setdefault(task_id, {
            "id": task_id, "status": "unknown", "output": [], "children": [], "approvals": [], "appliedSeq": -1})

    @staticmethod
    def has_events(task):
        return task["appliedSeq"] >= 0 or task["status"] == "in_progress"

    def apply(self, event):
        task = self.task(event["task_id"])
        had_events = self.has_events(task)
        ended = task["appliedSeq"] >= 0 and task["status"] in ENDS
        if is_count(event.get("task_seq")):
            task["appliedSeq"] = event["task_seq"]
        elif task["status"] == "unknown":
            task["status"] = "in_progress"
        try:
            source = event.get("source")
            check(event, not ended and (self.legacy or is_count(event.get("created_at"))))
            if source is not None:
                task.setdefault("source", read(source, DEFS["SourceRef"], self.legacy))
            if event["type"] not in DEFS or not event["type"].startswith("task."):
                self.unknown += 1
            else:
                shape = DEFS[event["type"]]
                properties = {name: inner for name, inner in shape["properties"].items() if name not in ENVELOPE}
                required = [name for name in shape["required"] if name not in ENVELOPE]
                fitting = read_object(event, {"properties": properties, "required": required}, self.legacy)
                self.rule(task, fitting)
        except Misfit:
            self.ignored += 1
        if not had_events or event["type"] == "task.child.started":
            self.choose_root(event["task_id"])

    def rule(self, task, event):
        kind = event["type"].split(".", 1)[1]
        if "task" in event and kind in ("created", "in_progress", *ENDS):
            check(event, kind != "created" or (event.get("task_seq") or 0) == 0)
            self.link_parent(task["id"], event["task"])
            task["status"] = "queued" if kind == "created" else kind
            if kind in ENDS:
                task.pop("suspension", None)
                task.pop("cancelling", None)
            self.take_over(task, event["task"])
        elif kind == "suspended":
            task["status"] = "suspended"
            task["suspension"] = pick(event, "reason", "approval_ids", "waiting_on", "expires_at")
            if "generate_reason" in event:
                task["generateReason"] = event["generate_reason"]
        elif kind == "resumed":
            task["status"] = "in_progress"
            task.pop("suspension", None)
            task.pop("generateReason", None)
        elif kind == "cancelling":
            task["cancelling"] = True
        elif kind.startswith("child."):
            self.fold_child(event, kind)
        elif kind.startswith("approval."):
            found = [one for one in task["approvals"] if one["approval_id"] == event["approval_id"]]
            if kind == "approval.requested":
                check(event, not found)
                task["approvals"].append({name: value for name, value in event.items() if name not in ENVELOPE})
            else:
                check(event, found and "decision" not in found[0])
                found[0].update(pick(event, "decision", "by", "reason"))
        elif kind == "hint.added":
            task.setdefault("hints", []).append(event["hint"])
        elif kind == "usage":
            task.update(pick(event, "usage", "cost"))
            if "by_model" in event:
                task["byModel"] = event["by_model"]
        elif kind == "custom":
            task.setdefault("state", {})[event["name"]] = event["value"]
        elif kind.startswith("output_item."):
            self.fold_item(task, event, kind)
        else:
            self.fold_part(task, event, kind)

    def take_over(self, task, sent):
        for name, own_name in FIELDS.items():
            if name in sent:
                task[own_name] = sent[name]
        self.set_mode(task, sent.get("mode"))
        if "incomplete_details" in sent:
            task["incompleteReason"] = sent["incomplete_details"]["reason"]
        if "output" in sent and not task["output"]:
            task["output"] = [own(item) for item in sent["output"]]
            for index, item in enumerate(task["output"]):
                self.find_children(task, item, index)

    @staticmethod
    def set_mode(task, mode):
        if mode is not None and task.get("mode") != "background":
            task["mode"] = mode

    def fold_snapshot(self, frame):
        try:
            event = read_object(frame, DEFS["task.snapshot"], self.legacy)
            is_older = event["through_task_seq"] < self.tasks.get(event["task_id"], {}).get("appliedSeq", -1)
            if not is_older:
                self.link_parent(event["task_id"], event["task"], event["task"].get("parent_output_index"))
        except Misfit:
            self.ignored += 1
            return
        if is_older and not event.get("final"):
            return
        if not is_older:
            task, sent = self.task(event["task_id"]), event["task"]
            for name in [name for name in task if name not in KEPT]:
                del task[name]
            task.update(status=sent["status"], appliedSeq=event["through_task_seq"], output=[])
            task["approvals"] = [dict(one) for one in sent.get("approvals", [])]
            task.update(pick(event, "source"), **pick(sent, "cancelling", "suspension", "cost", "state"))
            if "hints" in sent:
                task["hints"] = list(sent["hints"])
            if "by_model" in sent:
                task["byModel"] = sent["by_model"]
            self.take_over(task, sent)
            self.choose_root(task["id"])
            self.drain(task["id"])
        self.snapshot_cursor = max(-1 if self.snapshot_cursor is None else self.snapshot_cursor, event["through_sequence_number"])
        if event.get("final"):
            self.pass_snapshots()

    # Items and parts

    def reach(self, task, index):
        missing = index - len(task["output"])
        check(index, missing <= 0 or ((self.filtered or self.legacy) and missing <= 10_000))
        task["output"] += [{"type": "omitted", "id": ""} for _ in range(missing)]

    @staticmethod
    def put(items, index, item):
        items[index:index + 1] = [item]

    def fold_item(self, task, event, kind):
        output, index = task["output"], event["output_index"]
        item = output[index] if index < len(output) and output[index]["type"] != "omitted" else None
        if kind == "output_item.discarded":
            self.reach(task, index)
            self.put(output, index, {"type": "discarded", "id": event["item_id"], "reason": event["reason"]})
            return
        if kind == "output_item.added":
            if item is not None:
                check(event, is_open(item))
                return
            self.reach(task, index)
            result = own({"status": "in_progress", **event["item"]})
        else:
            check(event, item is None or is_open(item))
            self.reach(task, index)
            merged = {**(item or {}), **event["item"]}
            if item is not None and item["type"] != merged["type"]:
                read(merged, DEFS["ItemChange"], self.legacy)
            result = own(merged)
            if event["item"].get("status", "in_progress") == "in_progress":
                result["status"] = "completed"
            result.pop("progress", None)
            result.pop("arguments_status", None)
            for name in ("summary", "content") if result["type"] == "reasoning" else ("block_list",):
                if isinstance(result.get(name), list):
                    result[name] = [closed(part) if isinstance(part, dict) else part for part in result[name]]
        self.put(output, index, result)
        self.find_children(task, result, index)

    def fold_part(self, task, event, kind):
        output, index = task["output"], event["output_index"]
        family = kind.split(".")[0]
        implied = ("reasoning" if family.startswith("reasoning") else "tool_call" if family == "tool_call_arguments"
                   else "tool_result" if family == "tool_result" else "message")
        if index >= len(output) and self.legacy:
            self.reach(task, index)
            empty = json.loads(json.dumps(IMPLIED[implied]))
            output.append({"type": implied, "id": event["item_id"], "status": "in_progress", **empty})
        check(event, index < len(output) and is_open(output[index]))
        item = output[index]
        if kind == "reference.added":
            item.setdefault("references", []).append(event["reference"])
        elif family == "tool_result":
            check(event, item["type"] == "tool_result")
            item["progress"] = pick(event, "progress", "total", "message")
        elif family == "tool_call_arguments":
            check(event, item["type"] == "tool_call" and item.get("arguments_status") != "completed")
            if kind.endswith("done"):
                item.update(arguments=event["arguments"], arguments_status="completed")
            else:
                item["arguments"] += event["delta"]
        else:
            name = "summary" if "summary" in family else "content" if family == "reasoning_text" else "block_list"
            check(event, item["type"] == "reasoning" if name != "block_list" else isinstance(item.get(name), list))
            parts = item.get(name, [])
            at = event[LISTS[name]]
            if name == "block_list" and self.filtered and 0 < at - len(parts) <= 10_000:
                parts += [{"type": "omitted"} for _ in range(at - len(parts))]
            self.change_part(parts, at, event, kind, "reasoning_text" if name == "content" else "text", item["type"])
            item[name] = parts

    def change_part(self, parts, at, event, kind, text_type, holder):
        part = parts[at] if at < len(parts) else None
        is_next = at == len(parts)
        sent = normal(event["item"], holder) if "item" in event else {"type": text_type, "text": event.get("text")}
        if kind == "text.annotation.added":
            check(event, is_open(part, "text") and event["annotation_index"] == len(part.get("annotations", [])))
            part["annotations"] = [*part.get("annotations", []), event["annotation"]]
        elif kind == "image.delta":
            preview = {**sent, "partial_image_index": event["partial_image_index"], "status": "in_progress"}
            if is_next:
                parts.append(preview)
                return
            check(event, is_open(part, "image"))
            if event["partial_image_index"] > part.get("partial_image_index", -1):
                parts[at] = preview
        elif kind.endswith(".added"):
            if is_open(part):
                return
            check(event, is_next)
            parts.append({**sent, "status": "in_progress"})
        elif kind.endswith(".delta"):
            if is_next:
                parts.append({"type": text_type, "text": event["delta"], "status": "in_progress"})
                return
            check(event, is_open(part) and isinstance(part.get("text"), str))
            part["text"] += event["delta"]
        else:
            check(event, is_next or is_open(part))
            self.put(parts, at, closed(sent))

    # Links

    def link(self, child_id, parent_id, call_id=None, item_id=None, index=None):
        known = self.tasks.get(child_id, {}).get("parentTaskId")
        check(child_id, child_id != parent_id and known in (None, parent_id))
        child, parent = self.task(child_id), self.task(parent_id)
        child["parentTaskId"] = parent_id
        if call_id is not None:
            child["callId"] = call_id
        if item_id is not None:
            child["parentItemId"] = item_id
        if index is None and "parentOutputIndex" not in child:
            matches = [at for at, item in enumerate(parent["output"]) if self.holds(item, child)]
            index = matches[-1] if matches else None
        self.place(parent, child, index)

    @staticmethod
    def holds(item, child):
        return item["type"] == "tool_result" and (
            item["id"] == child.get("parentItemId") or item["call_id"] == child.get("callId"))

    def place(self, parent, child, index):
        if index is not None:
            child["parentOutputIndex"] = index
        if child["id"] not in parent["children"]:
            parent["children"].append(child["id"])
        parent["children"].sort(key=lambda one: (self.tasks[one].get("parentOutputIndex", 2**53), utf16(one)))

    def link_parent(self, task_id, sent, index=None):
        if "parent_task_id" in sent:
            task = self.tasks.get(task_id, {})
            self.link(task_id, sent["parent_task_id"], task.get("callId", sent.get("parent_call_id")),
                      task.get("parentItemId", sent.get("parent_item_id")), task.get("parentOutputIndex", index))

    def fold_child(self, event, kind):
        self.link(event["child_task_id"], event["task_id"], event["call_id"], event["item_id"], event["output_index"])
        child = self.tasks[event["child_task_id"]]
        if kind == "child.finished":
            if child["appliedSeq"] < 0:
                child["status"] = event["status"]
            if "usage" in event:
                child.setdefault("usage", event["usage"])
            return
        self.set_mode(child, event["mode"])
        if kind == "child.started":
            child.setdefault("agentId", event["agent"]["id"])
            if "remote" in event:
                child.setdefault("remote", event["remote"])

    def find_children(self, task, item, index):
        if item["type"] != "tool_result":
            return
        for child in list(self.tasks.values()):
            waits = child.get("parentTaskId") == task["id"] and "parentOutputIndex" not in child
            if waits and self.holds(item, child):
                self.place(task, child, index)
        call_id = item["call_id"]
        if self.legacy and call_id != task["id"] and is_id(call_id) and "parentTaskId" not in self.tasks.get(call_id, {}):
            self.link(call_id, task["id"], call_id, item["id"], index)

    def choose_root(self, task_id):
        candidate, seen = self.root if self.root is not None else task_id, set()
        while True:
            seen.add(candidate)
            parent = self.tasks.get(candidate, {}).get("parentTaskId")
            if parent is None or parent in seen or parent not in self.tasks or not self.has_events(self.tasks[parent]):
                break
            candidate = parent
        if parent is not None and "parentTaskId" not in self.tasks[task_id]:
            candidate = task_id
        self.root = candidate

    # Results

    def tree(self):
        gaps = [{"taskId": task["id"], "after": task["appliedSeq"], "before": task["parked"][0]["task_seq"]}
                for task in self.tasks.values() if "parked" in task]
        tree = {"tasks": self.tasks, "safeCursor": self.safe, "ahead": self.ahead, "gaps": gaps,
                "unknown": self.unknown, "ignored": self.ignored}
        if self.root is not None:
            tree["rootId"] = self.root
        if self.snapshot_cursor is not None:
            tree["snapshotCursor"] = self.snapshot_cursor
        return tree

    def document(self, seed=False):
        if self.root is None:
            return None
        return {"task_id": self.root, "output": self.output_of(self.tasks[self.root], [], seed)}

    def output_of(self, task, above, seed):
        path = [*above, task["id"]]
        return [self.shown(task, item, index, path, seed) for index, item in enumerate(task["output"])
                if item["type"] not in ("discarded", "omitted")]

    def shown(self, task, item, index, path, seed):
        view = dict(item)
        if len(path) > 1 and not seed:
            view["task_id"] = task["id"]
        if item["type"] in ("tool_result", "message"):
            view.pop("content", None)
            children = [one for one in task["children"] if self.tasks[one].get("parentOutputIndex") == index
                        and one not in path and len(path) < 100]
            blocks = []
            for block in item["block_list"]:
                if block["type"] == "task" and block["task_id"] in children:
                    children.remove(block["task_id"])
                    blocks += self.output_of(self.tasks[block["task_id"]], path, seed)
                else:
                    blocks.append(first_form(block) if seed else block)
            for child in children:
                blocks += self.output_of(self.tasks[child], path, seed)
            view["block_list"] = blocks
        return pick(view, *SEED_FIELDS[item["type"]]) if seed and item["type"] in SEED_FIELDS else view


SEED_FIELDS = {
    "reasoning": ("type", "id", "summary"),
    "tool_call": ("type", "id", "call_id", "name", "arguments"),
    "tool_result": ("type", "id", "call_id", "block_list"),
    "message": ("type", "id", "role", "block_list"),
}


def first_form(block):
    result = {name: value for name, value in block.items()
              if name not in ("id", "status", "mime_type", "partial_image_index", "reference_id")}
    if "reference_id" in block:
        result["id"] = block["reference_id"]
    if isinstance(block.get("annotations"), list):
        names = ("type", "reference_id", "start_index", "end_index")
        result["annotations"] = [pick(one, *names) if isinstance(one, dict) else one for one in block["annotations"]]
    return result

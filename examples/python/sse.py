"""Decodes server-sent events, by docs/protocol/http.md."""
import codecs
import json
import re


class Decoder:
    """Takes bytes in chunks and gives the frames that they complete."""

    def __init__(self):
        self.utf8 = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self.rest, self.data, self.after_cr = "", [], False

    def push(self, chunk):
        text = self.utf8.decode(chunk)
        if text == "":
            return
        # CR ends a line at once; the LF of a CR LF may come with the next chunk.
        if self.after_cr and text.startswith("\n"):
            text = text[1:]
        self.after_cr = text.endswith("\r")
        *lines, self.rest = re.split("\r\n|\n|\r", self.rest + text)
        for line in lines:
            frame = self.read_line(line)
            if frame is not None:
                yield frame

    def read_line(self, line):
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "data":
            self.data.append(value)
        if line != "":
            return None
        data, self.data = "\n".join(self.data), []
        try:
            frame = json.loads(data)
        except ValueError:
            return None
        return frame if isinstance(frame, dict) and isinstance(frame.get("type"), str) else None

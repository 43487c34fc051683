"""Messages as `protoc --decode` shows them: a decoder that has nothing of ours."""
import ast
import pathlib
import subprocess

HERE = pathlib.Path(__file__).parent


class Message(dict):
    """Field name -> list of its values, in order: int, float, bool, bytes or Message."""

    def one(self, field, default=0):
        return self[field][-1] if field in self else default

    def all(self, field):
        return self.get(field, [])


def value(text):
    if text[0] == '"':
        return ast.literal_eval("b" + text)
    return {"true": True, "false": False}[text] if text in ("true", "false") else int(text)


def parse(text):
    root = Message()
    open_messages = [root]
    for line in text.split("\n"):
        line = line.strip()
        if not line:
            continue
        if line == "}":
            open_messages.pop()
        elif line.endswith(" {"):
            message = Message()
            field(open_messages[-1], line[:-2]).append(message)
            open_messages.append(message)
        else:
            name, _, shown = line.partition(": ")
            field(open_messages[-1], name).append(value(shown))
    return root


def field(message, name):
    if name.isdigit():  # so protoc shows what the schema does not have
        raise ValueError(f"field {name} is not in the schema")
    return message.setdefault(name, [])


def decode(schema, message, data):
    """`data` as a Message; ValueError: protoc refused it."""
    done = subprocess.run(["protoc", f"--proto_path={HERE}", f"--decode={message}", schema],
                          input=data, capture_output=True, check=False)
    if done.returncode != 0 or done.stderr:
        raise ValueError(f"protoc: {done.stderr.decode(errors='replace').strip()}")
    return parse(done.stdout.decode())

"""Runs a program in a pseudo-terminal: pseudo_terminal.py <columns> <rows> <program> <arguments…>

Keys come from standard input, what the program writes goes to standard output, and each line "<columns> <rows>" on file
descriptor 3 changes the size. Ends with the exit code of the program, or 128 and its signal.
"""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios


def resize(terminal, columns, rows):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


columns, rows, *program = sys.argv[1:]
child, terminal = pty.fork()
if child == 0:
    # The parent sets the size before it lets the program start.
    os.read(0, 1)
    os.execvp(program[0], program)
resize(terminal, int(columns), int(rows))
settings = termios.tcgetattr(terminal)
os.write(terminal, b"\n")

sources = [terminal, 0, 3]
is_first = True
while True:
    ready, _, _ = select.select(sources, [], [])
    if 3 in ready:
        line = os.read(3, 100)
        if line == b"":
            sources.remove(3)
        else:
            width, height = line.split()[-2:]
            resize(terminal, int(width), int(height))
            os.kill(child, signal.SIGWINCH)
    if 0 in ready:
        keys = os.read(0, 65536)
        if keys == b"":
            sources.remove(0)
        else:
            os.write(terminal, keys)
    if terminal in ready:
        try:
            output = os.read(terminal, 65536)
        except OSError:
            output = b""
        if output == b"":
            break
        if is_first:
            # The echo of the line that lets the program start.
            output = output.replace(b"\r\n", b"", 1)
            is_first = False
        os.write(1, output)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) % 256 if not os.WIFSIGNALED(status) else 128 + os.WTERMSIG(status))

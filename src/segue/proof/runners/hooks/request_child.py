"""Start a program, send it one HTTP request, and print the answer as JSON. Runs in the project's sandbox."""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

LARGEST = 1024 * 1024


def main(given):
    """Print what the program answered, or why it did not."""
    port = given["port"] or free_port()
    argv = [word.replace("{port}", str(port)) for word in given["start"]]
    with tempfile.TemporaryFile() as log:
        try:
            server = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ, PORT=str(port))
            )
        except OSError as error:
            return {"failure": "it could not be started: %s" % error}
        try:
            found = ask(server, port, given)
        finally:
            server.kill()
            server.wait()
        log.seek(0, 2)
        log.seek(max(0, log.tell() - 4096))
        found["log"] = log.read().decode("utf-8", "replace")
    return found


def free_port():
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(server, port, given):
    """Wait until the program listens, then send the request."""
    deadline = time.monotonic() + given["patience"]
    while time.monotonic() < deadline:
        if server.poll() is not None:
            return {"failure": "the program ended with exit code %d before it answered" % server.returncode}
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.02)
    else:
        return {"failure": "nothing listens on port %d after %g s" % (port, given["patience"])}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=given["patience"])
    try:
        connection.request(given["method"], given["path"], given["body"].encode() or None, given["headers"])
        answer = connection.getresponse()
        body = answer.read(LARGEST)
    except (OSError, http.client.HTTPException) as error:
        return {"failure": "the request failed: %s" % (str(error) or type(error).__name__)}
    return {"status": answer.status, "body": body.decode("utf-8", "replace")}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))))

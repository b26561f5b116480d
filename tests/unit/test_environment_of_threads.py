"""Threads of the extension read no environment once the call that started them has returned.

Python may change `os.environ` then. The C library frees the old table while another thread reads
it: that thread dies of a segmentation fault, and what faulthandler shows is the innocent main one.
"""

import os
import subprocess
import sys
from pathlib import Path

RECORDER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static void note(const char *name) {
    if (syscall(SYS_gettid) != getpid()) dprintf(200, "%s\n", name);
}
char *getenv(const char *name) {
    static char *(*next)(const char *);
    if (!next) next = dlsym(RTLD_NEXT, "getenv");
    note(name);
    return next(name);
}
char *secure_getenv(const char *name) {
    static char *(*next)(const char *);
    if (!next) next = dlsym(RTLD_NEXT, "secure_getenv");
    note(name);
    return next(name);
}
"""
SERVERS = """
import http.client, json, os, sys
os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND), 200)
from loadstone import _loadgen
keys = {"access_key": "testing", "secret_key": "testing-secret"}
store = _loadgen.Store(json.dumps({"port": 0, "threads": 2, **keys}))
null = _loadgen.NullServer(json.dumps({"port": 0}))
for server in (store, null):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", "/")
    connection.getresponse().read()
    connection.close()
    server.stop()
"""


def test_threads_of_servers_read_no_environment(tmp_path: Path) -> None:
    source, recorder, record = tmp_path / "r.c", tmp_path / "r.so", tmp_path / "record"
    source.write_text(RECORDER)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", recorder, source, "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(recorder)}
    code = [sys.executable, "-c", SERVERS, record]
    subprocess.run(code, env=environment, check=True)
    assert record.read_text() == ""

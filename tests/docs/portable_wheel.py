"""Takes the folder of the build out of a wheel's SBOM: `python -m tests.docs.portable_wheel WHEEL`.

maturin names our crates there by their path, so that builds in different folders would differ.
"""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

SBOM = ".cyclonedx.json"


def without_folder(wheel: Path, folder: Path) -> None:
    """Write a wheel anew with `folder` as /loadstone in its SBOM, whose digest RECORD has."""
    with zipfile.ZipFile(wheel) as archive:
        files = [(info, archive.read(info)) for info in archive.infolist()]
    lines = {}
    for at, (info, content) in enumerate(files):
        if info.filename.endswith(SBOM):
            text = content.replace(f"file://{folder}".encode(), b"file:///loadstone")
            files[at] = info, text
            digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
            lines[info.filename] = f"{info.filename},sha256={digest},{len(text)}"
    portable = wheel.with_suffix(".portable")
    with zipfile.ZipFile(portable, "w") as archive:
        for info, content in files:
            if info.filename.endswith(".dist-info/RECORD"):
                record = content.decode().splitlines()
                record = [lines.get(line.partition(",")[0], line) for line in record]
                content = "".join(f"{line}\n" for line in record).encode()
            archive.writestr(info, content)
    portable.replace(wheel)


if __name__ == "__main__":
    without_folder(Path(sys.argv[1]), Path.cwd())

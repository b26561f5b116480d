"""What loadstone uses of `pyarrow.fs`."""

import enum
from typing import overload

from pyarrow import NativeFile

class FileType(enum.Enum):
    NotFound = ...
    Unknown = ...
    File = ...
    Directory = ...

class FileInfo:
    path: str
    type: FileType
    size: int | None

class FileSelector:
    def __init__(
        self, base_dir: str, allow_not_found: bool = False, recursive: bool = False
    ) -> None: ...

class S3FileSystem:
    def __init__(
        self,
        *,
        access_key: str | None = None,
        secret_key: str | None = None,
        session_token: str | None = None,
        region: str | None = None,
        scheme: str | None = None,
        endpoint_override: str | None = None,
        allow_bucket_creation: bool = False,
        allow_bucket_deletion: bool = False,
        connect_timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> None: ...
    @overload
    def get_file_info(self, paths_or_selector: str) -> FileInfo: ...
    @overload
    def get_file_info(self, paths_or_selector: FileSelector | list[str]) -> list[FileInfo]: ...
    def create_dir(self, path: str, *, recursive: bool = True) -> None: ...
    def delete_dir(self, path: str) -> None: ...
    def delete_file(self, path: str) -> None: ...
    def open_input_stream(self, path: str) -> NativeFile: ...
    def open_output_stream(self, path: str) -> NativeFile: ...

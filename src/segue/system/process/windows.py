"""Job objects, which Windows has in place of process groups and sessions."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _EXTENDED_LIMITS, _KILL_ON_CLOSE = 9, 0x2000

    class _Basic(ctypes.Structure):
        _fields_ = [
            ("PerProcessUserTimeLimit", ctypes.c_int64),
            ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        ]

    class _Extended(ctypes.Structure):
        _fields_ = [
            ("Basic", _Basic),
            ("IoCounters", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        ]

    _kernel = ctypes.WinDLL("kernel32")
    _kernel.CloseHandle.argtypes = [wintypes.HANDLE]
    _kernel.CreateJobObjectW.restype = wintypes.HANDLE
    _kernel.CreateJobObjectW.argtypes = [wintypes.LPVOID, wintypes.LPCWSTR]
    _kernel.SetInformationJobObject.argtypes = [
        *(wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
    ]
    _kernel.AssignProcessToJobObject.argtypes = [wintypes.HANDLE, wintypes.HANDLE]
    _kernel.TerminateJobObject.argtypes = [wintypes.HANDLE, wintypes.UINT]

    class JobObject:
        """Contains a process and everything it starts; closing it, also by a crash, ends them all."""

        def __init__(self, process: subprocess.Popen[bytes]) -> None:
            self._handle: int | None = _kernel.CreateJobObjectW(None, None)
            limits = _Extended()
            limits.Basic.LimitFlags = _KILL_ON_CLOSE
            self.holds = bool(
                self._handle
                and _kernel.SetInformationJobObject(
                    self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
                )
                and _kernel.AssignProcessToJobObject(self._handle, int(process._handle))  # type: ignore[attr-defined]
            )

        def kill(self) -> None:
            """Kill everything inside, also processes that outlived their parent."""
            _kernel.TerminateJobObject(self._handle, 1)

        def __del__(self) -> None:
            if self._handle:
                _kernel.CloseHandle(self._handle)

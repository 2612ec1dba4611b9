"""Kernels for Python, and kernels as parts of other kernels: compiled into what Python calls, never on their own.

Numba compiles every function that a kernel calls as if Python called it as well: optimised, translated to machine
code, wrapped for Python and written to disk, and then optimised once more within each caller. A part is only checked
for types and written down for LLVM; its callers optimise and translate it. So less is
compiled, and the code is faster, since LLVM sees all of it at once. What Python calls is optimised once, with
all its parts, and not function by function before; and it is not wrapped for C.

What this builds upon is private to Numba (the pieces are those of its manual, "Customizing the compiler", but for the
library). A version that lacks it compiles kernels as ever: slower, never different.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

try:
    from numba.core import types
    from numba.core.codegen import CPUCodegen, JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_machinery import PassManager, register_pass
    from numba.core.registry import CPUDispatcher
    from numba.core.typed_passes import NativeLowering
except ImportError:  # pragma: no cover
    SUPPORTED = WHOLE = False
else:
    _STEPS = ("_optimize_functions", "_optimize_final_module", "_finalize_final_module")
    SUPPORTED = all(hasattr(JITCodeLibrary, name) for name in _STEPS)
    # Until 0.61, Numba used other passes of LLVM, of which a module has one object.
    WHOLE = SUPPORTED and "llvm_module" not in inspect.signature(CPUCodegen._function_pass_manager).parameters


def for_python() -> dict[str, Any]:
    """Options with which Numba is to compile a kernel that Python calls."""
    return {"pipeline_class": _WholeCompiler} if WHOLE else {}


def call_as_part(kernel: Any, function: Callable[..., Any], options: dict[str, Any]) -> None:
    """Let other kernels that call this one, which Python may call as ever, compile it as a part of themselves."""
    if SUPPORTED:
        part = _Part(function, targetoptions={"nopython": True, **options}, pipeline_class=_PartCompiler)
        kernel.get_call_template, kernel.get_overload = part.get_call_template, part.get_overload


if SUPPORTED:

    class _Whole(JITCodeLibrary):
        """Code whose functions are optimised one by one, but for those that are only declared."""

        def _optimize_functions(self, module: Any) -> None:
            if not WHOLE:  # pragma: no cover
                super()._optimize_functions(module)  # type: ignore[no-untyped-call]
                return
            module.data_layout = self._codegen._data_layout
            for function in module.functions:
                if not function.is_declaration:
                    fpm, pb = self._codegen._function_pass_manager(opt=1)
                    fpm.run(function, pb)

        def _optimize_final_module(self) -> None:
            mpm, pb = self._codegen._module_pass_manager(opt=2)
            mpm.run(self._final_module, pb)

    class _Unfinished(_Whole):
        """Code that is linked with what it calls, and then left as it is."""

        def _optimize_final_module(self) -> None:
            """Leave it to the callers."""

        def _finalize_final_module(self) -> None:
            self._finalized = True

    @register_pass(mutates_CFG=True, analysis_only=False)
    class _WholeLowering(NativeLowering):
        """Numba's last step, which writes a function down for LLVM and makes it executable."""

        _name = "conebandit_whole"

        def run_pass(self, state: Any) -> bool:
            state.library = _Whole(state.targetctx.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
            state.library.enable_object_caching()
            # Here and not as an option: what kernels use of Numba is compiled anew for every combination of options.
            state.flags.no_cfunc_wrapper = True
            return bool(super().run_pass(state))  # type: ignore[no-untyped-call]

    @register_pass(mutates_CFG=True, analysis_only=False)
    class _PartLowering(NativeLowering):
        """The same without making it executable."""

        _name = "conebandit_part"

        def run_pass(self, state: Any) -> bool:
            state.library = _Unfinished(state.targetctx.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
            state.flags.no_compile = state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
            super().run_pass(state)  # type: ignore[no-untyped-call]
            key = object()  # by which callers find the code; in Numba it is the executable function
            state.targetctx.insert_user_function(key, state.cr.fndesc, [state.library])
            state.cr = state.cr._replace(cfunc=key)
            return True

    class _Compiler(CompilerBase):
        """Numba's own steps but for the last."""

        last_step: Any

        def define_pipelines(self) -> list[PassManager]:
            steps = PassManager(self.last_step._name)
            for define in ("define_untyped_pipeline", "define_typed_pipeline", "define_nopython_lowering_pipeline"):
                for step, words in getattr(DefaultPassBuilder, define)(self.state).passes:
                    steps.add_pass(self.last_step if step is NativeLowering else step, words)
            steps.finalize()
            return [steps]

    class _WholeCompiler(_Compiler):
        last_step = _WholeLowering

    class _PartCompiler(_Compiler):
        last_step = _PartLowering

    class _Part(CPUDispatcher):
        """The versions of a kernel that other kernels call."""

        def add_overload(self, version: Any) -> None:
            self.overloads[tuple(version.signature.args)] = version

        def get_call_template(self, args: Any, kws: Any) -> Any:
            # A variable that begins as 0 is first taken for the constant 0, for which there would be a version too.
            return super().get_call_template([types.unliteral(each) for each in args], kws)

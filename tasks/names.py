"""Names that no task and no imported adapter may have, because something else of that name stands in their place.

An adapter and a head are called after their task, and the adapters library keeps both in a ``torch.nn.ModuleDict``,
which refuses the name of each of its own attributes; ``smart_apply`` is one that transformers gives it. The list is
written out, because nothing here may load torch; a test compares it with the class.
"""

from __future__ import annotations

OF_CONTROLS = ("intermediate", "random")  # what a study's own cells call that which is below a target
OF_MODULES = frozenset(
    """
    add_module apply bfloat16 buffers call_super_init children clear compile cpu cuda double dump_patches eval
    extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu items keys load_state_dict
    modules mtia named_buffers named_children named_modules named_parameters parameters pop register_backward_hook
    register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook
    register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook
    register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_
    set_extra_state set_submodule share_memory smart_apply state_dict to to_empty train training type update values
    xpu zero_grad

    _apply _backward_hooks _backward_pre_hooks _buffers _call_impl _compiled_call_impl _forward_hooks
    _forward_hooks_always_called _forward_hooks_with_kwargs _forward_pre_hooks _forward_pre_hooks_with_kwargs
    _get_backward_hooks _get_backward_pre_hooks _get_name _is_full_backward_hook _load_from_state_dict
    _load_state_dict_post_hooks _load_state_dict_pre_hooks _maybe_warn_non_full_backward_hook _modules _named_members
    _non_persistent_buffers_set _parameters _register_load_state_dict_pre_hook _register_state_dict_hook
    _replicate_for_data_parallel _save_to_state_dict _slow_forward _state_dict_hooks _state_dict_pre_hooks _version
    _wrapped_call_impl

    __annotations__ __call__ __class__ __contains__ __delattr__ __delitem__ __dict__ __dir__ __doc__ __eq__ __format__
    __ge__ __getattr__ __getattribute__ __getitem__ __getstate__ __gt__ __hash__ __init__ __init_subclass__ __iter__
    __le__ __len__ __lt__ __module__ __ne__ __new__ __reduce__ __reduce_ex__ __repr__ __setattr__ __setitem__
    __setstate__ __sizeof__ __str__ __subclasshook__ __weakref__
    """.split()
)


def why_taken(name: str) -> str | None:
    """Why nothing may be called so, as the end of a sentence that begins with the name; None if it is free."""
    if name in OF_CONTROLS:
        return "has a meaning of its own in a study"
    if name in OF_MODULES:
        return "is what torch.nn.ModuleDict, which keeps adapters by their names, calls a part of its own"
    return None

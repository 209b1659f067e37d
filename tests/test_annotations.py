"""Public functions and methods are annotated."""

import inspect
import operator

import pytest

import tfdml

# Rooms whose public surface is annotated.
ROOMS = [*tfdml.__all__, "losses.functional"]


def public(room):
    """Every public function, class and method of a room, by name."""
    thing = operator.attrgetter(room)(tfdml)
    if not inspect.ismodule(thing):
        return {room: thing}
    names = getattr(thing, "__all__", [name for name in vars(thing) if not name.startswith("_")])
    found = {f"{room}.{name}": getattr(thing, name) for name in names}
    found = {name: value for name, value in found.items() if getattr(value, "__module__", "").startswith("tfdml")}
    for name in [name for name, value in found.items() if inspect.isclass(value)]:
        found |= methods_of(name, found[name])
    return {name: value for name, value in found.items() if inspect.isfunction(value)}


def methods_of(name, cls):
    """Constructor, public methods and properties, those of tfdml's own base classes included."""
    own = [base for base in cls.__mro__ if base.__module__.startswith("tfdml")]
    members = {member: value for base in reversed(own) for member, value in vars(base).items()}
    plain = {member: function_of(value) for member, value in members.items()}
    shown = [member for member in plain if not member.startswith("_") or member in ("__init__", "__call__")]
    return {f"{name}.{member}": plain[member] for member in shown if "." in getattr(plain[member], "__qualname__", "")}


def function_of(member):
    """The function inside a method of a class, a property, or a static method."""
    return inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))


def unannotated(function):
    """The parameters without an annotation, and the result; a constructor has none."""
    signature = inspect.signature(function)
    missing = [
        name for name, p in signature.parameters.items() if p.annotation is p.empty and name not in ("self", "cls")
    ]
    without_result = signature.return_annotation is signature.empty and function.__name__ != "__init__"
    return missing + ["return"] * without_result


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_callable_of_a_room_is_annotated(room):
    missing = {name: unannotated(function) for name, function in public(room).items()}
    assert missing
    assert {name: parts for name, parts in missing.items() if parts} == {}


def test_what_is_not_annotated_is_found():
    def half(a: int, b, *, c=1): ...

    class Whole:
        def __init__(self, a: int): ...

    assert unannotated(half) == ["b", "c", "return"]
    assert unannotated(Whole.__init__) == []

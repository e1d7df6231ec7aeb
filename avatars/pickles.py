"""A pickle reader that cannot run anything: plain values, and only the names a caller maps to its own functions.

The standard Unpickler with a restricted `find_class` still lets a file size its memo table or set attributes on what a
name gives; this one cannot. It reads what `torch.save` and `pickle.dump` write for packets.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from avatars.errors import PacketInvalid

Call = Callable[..., Any]
_MAX_STEPS = 8_000_000


class Named:
    """What a global name stands for until it is called or passed on. Has no attributes to write to."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Call) -> None:
        self.name = name
        self.call = call


class Buildable:
    """A stand-in that may be given the state that follows it in a pickle."""

    __slots__ = ()

    def build(self, state: object) -> None:
        raise NotImplementedError


def read_pickle(
    data: bytes, field: str, names: Mapping[str, Call] | None = None, persistent: Call | None = None
) -> Any:
    """The value of a pickle. `names` maps "module.name" to what stands in for it; any other name is refused.

    Raises PacketInvalid, with `field` saying which file, on anything unexpected.
    """
    machine = _Machine(data, field, names or {}, persistent)
    try:
        return machine.run()
    except (IndexError, struct.error, UnicodeDecodeError, ValueError, OverflowError, KeyError) as error:
        raise PacketInvalid(
            field, "a whole pickle of plain values", f"damage at byte {machine.at} ({error!r})"
        ) from None
    except (TypeError, AttributeError) as error:
        raise PacketInvalid(field, "a pickle of plain values", f"values that do not fit together ({error})") from None


class _Machine:
    """The stack machine, one method per family of opcodes."""

    def __init__(self, data: bytes, field: str, names: Mapping[str, Call], persistent: Call | None) -> None:
        self.data = data
        self.at = 0
        self.field = field
        self.names = names
        self.persistent = persistent
        self.stack: list[Any] = []
        self.marks: list[int] = []
        """Heights of the stack at which lists and tuples begin."""
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        data, stack, marks, memo = self.data, self.stack, self.marks, self.memo
        for _ in range(_MAX_STEPS):
            opcode = data[self.at]
            self.at += 1
            # Long lists of numbers are made of these; all else is rare.
            if opcode == 0x4B:  # BININT1
                stack.append(data[self.at])
                self.at += 1
            elif opcode == 0x4D:  # BININT2
                stack.append(data[self.at] | data[self.at + 1] << 8)
                self.at += 2
            elif opcode == 0x28:  # MARK
                marks.append(len(stack))
            elif opcode == 0x74:  # TUPLE
                start = marks.pop()
                stack[start:] = [tuple(stack[start:])]
            elif opcode == 0x71:  # BINPUT
                memo[data[self.at]] = stack[-1]
                self.at += 1
            elif opcode == 0x68:  # BINGET
                stack.append(memo[data[self.at]])
                self.at += 1
            elif opcode == 0x2E:  # STOP
                return stack.pop()
            elif (action := _ACTIONS.get(opcode)) is not None:
                action(self)
            else:
                raise PacketInvalid(self.field, "a pickle of plain values", f"opcode {bytes([opcode])!r}")
        raise PacketInvalid(self.field, f"at most {_MAX_STEPS} pickle steps", "more")

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise ValueError("it ends too early")
        piece = self.data[self.at : self.at + count]
        self.at += count
        return piece

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "little")

    def line(self) -> str:
        end = self.data.index(b"\n", self.at)
        text = self.data[self.at : end].decode("utf-8")
        self.at = end + 1
        return text

    def until_mark(self) -> list[Any]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def push_name(self, name: str) -> None:
        call = self.names.get(name)
        if call is None:
            raise PacketInvalid(self.field, "plain values only", f"the name {name[:80]!r}, which could run code")
        self.stack.append(Named(name, call))

    def reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, Named) or not isinstance(arguments, tuple):
            raise PacketInvalid(self.field, "a call of a known name", "a call of something else")
        self.stack.append(function.call(*arguments))

    def load_persistent(self) -> None:
        if self.persistent is None:
            raise PacketInvalid(self.field, "plain values only", "a reference to outside storage")
        self.stack.append(self.persistent(self.stack.pop()))

    def extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise ValueError("items are added to something that is no list")
        target.extend(items)

    def update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict or len(items) % 2:
            raise ValueError("pairs are added to something that is no dictionary")
        target.update(zip(items[::2], items[1::2], strict=True))

    def integer_line(self) -> None:
        text = self.line()
        flags = {"00": False, "01": True}
        self.stack.append(flags[text] if text in flags else int(text.rstrip("L")))

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if not isinstance(target, Buildable):
            raise PacketInvalid(self.field, "plain values only", "an object with a state of its own")
        target.build(state)

    def stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.push_name(f"{module}.{name}")


def _push(read: Callable[[_Machine], Any]) -> Callable[[_Machine], None]:
    def action(machine: _Machine) -> None:
        machine.stack.append(read(machine))

    return action


def _skip(count: int) -> Callable[[_Machine], None]:
    def action(machine: _Machine) -> None:
        machine.take(count)

    return action


def _tuple_of(count: int) -> Callable[[_Machine], None]:
    def action(machine: _Machine) -> None:
        if len(machine.stack) < count:
            raise ValueError("too few values for a tuple")
        items = tuple(machine.stack[-count:])
        del machine.stack[-count:]
        machine.stack.append(items)

    return action


def _store(key: Callable[[_Machine], int]) -> Callable[[_Machine], None]:
    def action(machine: _Machine) -> None:
        machine.memo[key(machine)] = machine.stack[-1]

    return action


def _fetch(key: Callable[[_Machine], int]) -> Callable[[_Machine], None]:
    return _push(lambda m: m.memo[key(m)])


_ACTIONS: dict[int, Callable[[_Machine], None]] = {
    0x80: _skip(1),  # PROTO
    0x95: _skip(8),  # FRAME
    ord("0"): lambda m: m.stack.pop() and None,
    ord("2"): _push(lambda m: m.stack[-1]),
    ord("N"): _push(lambda m: None),
    0x88: _push(lambda m: True),
    0x89: _push(lambda m: False),
    ord("J"): _push(lambda m: int.from_bytes(m.take(4), "little", signed=True)),
    ord("I"): _Machine.integer_line,
    ord("L"): _Machine.integer_line,
    0x8A: _push(lambda m: int.from_bytes(m.take(m.number(1)), "little", signed=True)),  # LONG1
    ord("G"): _push(lambda m: struct.unpack(">d", m.take(8))[0]),
    ord("F"): _push(lambda m: float(m.line())),
    0x8C: _push(lambda m: m.take(m.number(1)).decode()),  # SHORT_BINUNICODE
    ord("X"): _push(lambda m: m.take(m.number(4)).decode()),
    ord("C"): _push(lambda m: m.take(m.number(1))),
    ord("B"): _push(lambda m: m.take(m.number(4))),
    ord("]"): _push(lambda m: []),
    ord("l"): _push(lambda m: m.until_mark()),
    ord("a"): lambda m: m.extend([m.stack.pop()]),
    ord("e"): lambda m: m.extend(m.until_mark()),
    ord(")"): _push(lambda m: ()),
    0x85: _tuple_of(1),
    0x86: _tuple_of(2),
    0x87: _tuple_of(3),
    ord("}"): _push(lambda m: {}),
    ord("s"): lambda m: m.update([m.stack.pop(-2), m.stack.pop()]),
    ord("u"): lambda m: m.update(m.until_mark()),
    ord("r"): _store(lambda m: m.number(4)),
    ord("p"): _store(lambda m: int(m.line())),
    0x94: _store(lambda m: len(m.memo)),  # MEMOIZE
    ord("j"): _fetch(lambda m: m.number(4)),
    ord("g"): _fetch(lambda m: int(m.line())),
    ord("c"): lambda m: m.push_name(f"{m.line()}.{m.line()}"),
    0x93: _Machine.stack_global,
    ord("R"): _Machine.reduce,
    ord("b"): _Machine.build,
    ord("Q"): _Machine.load_persistent,
}

"""What this program writes, torch and pickle read; what they write, this program reads. Proven against torch itself."""

from __future__ import annotations

import pickle  # noqa: TID251 - the very consumer this must please

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from avatars.errors import PacketInvalid
from avatars.pickles import read_pickle
from avatars.tensorfile import TensorWriter, read_tensor_file
from avatars.torchfile import TorchFile, read_torch_file, write_torch_file

torch = pytest.importorskip("torch", reason="the musetalk extra is not installed")

pytestmark = pytest.mark.contract

KINDS = [np.uint8, np.int8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64, np.bool_]


def read(path):
    with path.open("rb") as file:
        return read_torch_file(file, path.name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mapped", [False, True])
def test_torch_reads_what_we_write(tmp_path, kind, mapped):
    values = (np.arange(2 * 3 * 5) % 2).reshape(2, 3, 5).astype(kind)
    write_torch_file(tmp_path / "a.pt", values)
    loaded = torch.load(tmp_path / "a.pt", weights_only=True, mmap=mapped)
    assert np.array_equal(loaded.numpy(), values)
    assert loaded.numpy().dtype == values.dtype


def test_a_repeated_frame_is_stored_once_and_has_its_full_shape_in_torch(tmp_path):
    frame = np.random.default_rng(1).integers(0, 256, (3, 64, 48), dtype=np.uint8)
    write_torch_file(tmp_path / "frames.pt", np.broadcast_to(frame, (25, 3, 64, 48)))
    loaded = torch.load(tmp_path / "frames.pt", weights_only=True)
    assert loaded.shape == (25, 3, 64, 48)
    assert all(np.array_equal(loaded[i].numpy(), frame) for i in range(25))
    assert (tmp_path / "frames.pt").stat().st_size < 2 * frame.nbytes


def test_torch_reads_lists_that_share_and_lists_that_do_not(tmp_path):
    rng = np.random.default_rng(2)
    shared, other = rng.random((1, 7, 9), dtype=np.float32), rng.random((1, 3, 5), dtype=np.float32)
    masks = [shared, shared, other, shared]
    write_torch_file(tmp_path / "masks.pt", masks)
    loaded = torch.load(tmp_path / "masks.pt", weights_only=True)
    assert [np.array_equal(a.numpy(), b) for a, b in zip(loaded, masks, strict=True)] == [True] * 4
    assert [np.array_equal(a, b) for a, b in zip(read(tmp_path / "masks.pt"), masks, strict=True)] == [True] * 4


def test_mapped_data_starts_on_64_bytes_for_torch(tmp_path):
    write_torch_file(tmp_path / "a.pt", np.zeros((3, 8), np.float32))
    loaded = torch.load(tmp_path / "a.pt", weights_only=True, mmap=True)
    assert loaded.data_ptr() % 64 == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(KINDS),
    shape=st.lists(st.integers(0, 5), min_size=0, max_size=4),
    flip=st.booleans(),
    count=st.integers(1, 3),
)
def test_we_read_whatever_torch_saves(tmp_path, kind, shape, flip, count):
    total = int(np.prod(shape)) if shape else 1
    tensors = [torch.from_numpy((np.arange(total) % 2).reshape(shape).astype(kind)) for _ in range(count)]
    if flip and len(shape) >= 2:
        tensors = [t.transpose(0, 1) for t in tensors]
    torch.save(tensors, tmp_path / "b.pt")
    loaded = read(tmp_path / "b.pt")
    assert len(loaded) == count
    for mine, theirs in zip(loaded, tensors, strict=True):
        assert np.array_equal(mine, theirs.numpy())
        assert not mine.flags.writeable


def test_we_read_views_and_expanded_tensors_of_one_storage(tmp_path):
    base = torch.arange(24, dtype=torch.int32).reshape(4, 6)
    torch.save({"part": base[1:3, 2:5], "wide": base[:1].expand(5, 6), "tuple": (base,)}, tmp_path / "c.pt")
    loaded = read(tmp_path / "c.pt")
    assert np.array_equal(loaded["part"], base[1:3, 2:5].numpy())
    assert np.array_equal(loaded["wide"], base[:1].expand(5, 6).numpy())
    assert np.array_equal(loaded["tuple"][0], base.numpy())


def test_checksums_of_torch_find_a_flipped_bit(tmp_path):
    torch.save(torch.arange(1000, dtype=torch.float32), tmp_path / "d.pt")
    data = bytearray((tmp_path / "d.pt").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "d.pt").write_bytes(data)
    with (tmp_path / "d.pt").open("rb") as file, pytest.raises(PacketInvalid, match="CRC-32"):
        TorchFile(file, "d.pt").check_sums()


@pytest.mark.parametrize("thing", [{"a": torch.nn.Linear(2, 2)}, [torch.nn.Parameter(torch.ones(2)), print]])
def test_anything_but_tensors_is_refused(tmp_path, thing):
    torch.save(thing, tmp_path / "e.pt")
    with pytest.raises(PacketInvalid, match="could run code"):
        read(tmp_path / "e.pt")


def test_numbers_numpy_does_not_have_are_refused(tmp_path):
    torch.save(torch.ones(3, dtype=torch.bfloat16), tmp_path / "f.pt")
    with pytest.raises(PacketInvalid):
        read(tmp_path / "f.pt")


def test_the_format_before_1_6_is_refused(tmp_path):
    torch.save(torch.ones(3), tmp_path / "g.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(PacketInvalid, match=r"torch\.save"):
        read(tmp_path / "g.pt")


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=20,
)


@given(value=plain, protocol=st.integers(1, pickle.HIGHEST_PROTOCOL))
def test_plain_pickles_are_read(value, protocol):
    assert read_pickle(pickle.dumps(value, protocol), "x.pkl") == value


def test_a_list_that_holds_itself_is_no_trap():
    loop = []
    loop.append(loop)
    assert len(read_pickle(pickle.dumps(loop), "x.pkl")) == 1


def test_safetensors_reads_what_we_stream_and_we_read_what_it_writes(tmp_path):
    rows = np.random.default_rng(3).integers(0, 256, (4, 6, 5), dtype=np.uint8)
    with TensorWriter(tmp_path / "a.safetensors") as writer:
        for row in rows:
            writer.append("planes", row[None])
        writer.add("order", np.arange(4, dtype=np.int32))
    loaded = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    assert np.array_equal(loaded["planes"], rows)
    assert loaded["order"].tolist() == [0, 1, 2, 3]
    safetensors.numpy.save_file({"x": rows, "y": rows.astype(np.float32)}, tmp_path / "b.safetensors")
    with (tmp_path / "b.safetensors").open("rb") as file:
        mine = read_tensor_file(file, "b")
    assert np.array_equal(mine["x"], rows)
    assert np.array_equal(mine["y"], rows.astype(np.float32))

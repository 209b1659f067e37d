"""The tokenizers of KerasHub in the form of the library tokenizers: byte pairs of CLIP, SentencePiece, WordPiece."""

import string
from typing import Any

from tfdml._core.checks import require
from tfdml._core.optional import optional_import
from tfdml.embedding.tokenizer import Tokenizer

_UNIGRAM, _BYTE_PAIRS = 1, 2  # of the trainer of SentencePiece
_USER_DEFINED = 4  # type of a piece that is found before all others
_SPACE = "\u2581"  # of SentencePiece
_WORDS_OF_CLIP = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"  # each digit alone
)
_PROBES = ("a photo of a cat", "zwei rote vögel", "二つ 1,024")


def hub_tokenizer(tokenizer: Any, length: int) -> Tokenizer:
    """A tokenizer of BERT, CLIP, SigLIP, Gemma or MetaCLIP of KerasHub, with rows of `length` numbers.

    It lowers the case, but for a BERT with capitals, and puts the end mark and the start mark of the model, if it has
    one, around a text. Outer and repeated blanks do not count, nor does punctuation for SigLIP 1, which was shown none.

    Raises:
        ValueError: a SentencePiece model other than unigram and byte pairs, or numbers other than KerasHub's own.
    """
    if hasattr(tokenizer, "merges"):
        made = _byte_pairs_of_clip(tokenizer)
    else:
        made = _word_piece(tokenizer) if hasattr(tokenizer, "suffix_indicator") else _sentence_piece(tokenizer)
        _require_same_numbers(made, tokenizer)
    lib = _library()
    start = None if _is_siglip(tokenizer) else tokenizer.start_token
    marks = {tokenizer.end_token: tokenizer.end_token_id} | ({} if start is None else {start: tokenizer.start_token_id})
    template = [*([] if start is None else [start]), "$A", tokenizer.end_token]
    made.post_processor = lib.processors.TemplateProcessing(single=template, special_tokens=list(marks.items()))
    pad = tokenizer.pad_token_id
    made.enable_padding(length=length, pad_id=pad, pad_token=made.id_to_token(pad) or "<pad>")
    return Tokenizer(made.to_str())


def _library():
    return optional_import("tokenizers", feature="A tokenizer", extra="hub")


def _is_siglip(tokenizer):
    """Whether a text has no start mark: SigLIP 1 has none, and SigLIP 2 was shown none of Gemma's."""
    return type(tokenizer).__name__ in ("SigLIPTokenizer", "GemmaTokenizer")


def _byte_pairs_of_clip(tokenizer):
    lib, merges = _library(), [line for line in tokenizer.merges if "#version:" not in line]
    model = lib.models.BPE(
        dict(tokenizer.vocabulary),
        [tuple(line.split(" ")) for line in merges],
        end_of_word_suffix="</w>",
        unk_token=tokenizer.end_token,
    )
    made = lib.Tokenizer(model)
    made.normalizer = _sequence(lib.normalizers.NFC(), *_blanks(), lib.normalizers.Lowercase())
    made.pre_tokenizer = lib.pre_tokenizers.Sequence(
        [
            lib.pre_tokenizers.Split(lib.Regex(_WORDS_OF_CLIP), behavior="removed", invert=True),
            lib.pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return made


def _word_piece(tokenizer):
    lib, numbers = _library(), {name: number for number, name in enumerate(tokenizer.vocabulary)}
    prefix, unknown = tokenizer.suffix_indicator, tokenizer.oov_token
    made = lib.Tokenizer(lib.models.WordPiece(numbers, unk_token=unknown, continuing_subword_prefix=prefix))
    case = {"lowercase": tokenizer.lowercase, "strip_accents": tokenizer.strip_accents or None}  # None: with the case
    made.normalizer = lib.normalizers.BertNormalizer(handle_chinese_chars=tokenizer.split_on_cjk, **case)
    made.pre_tokenizer = lib.pre_tokenizers.BertPreTokenizer()
    return made


def _sentence_piece(tokenizer):
    """The tokenizer of a SentencePiece model, with the shift of its numbers that MetaCLIP has."""
    lib, proto = _library(), _proto_of(tokenizer)
    pieces, kind = list(proto.pieces), proto.trainer_spec.model_type
    prefix = getattr(tokenizer, "_vocabulary_prefix", None)  # in front of the pieces, in place of the first three
    scores = [(piece.piece, piece.score) for piece in pieces]
    unknown, fallback = proto.trainer_spec.unk_id, proto.trainer_spec.byte_fallback
    if prefix is not None:
        scores, unknown = [(name, 0.0) for name in prefix] + scores[len(prefix) - 1 :], prefix.index("<unk>")
    require(kind in (_UNIGRAM, _BYTE_PAIRS), f"a SentencePiece model of type {kind}", "unigram (1) or byte pairs (2)")
    model = (
        lib.models.Unigram(scores, unknown, fallback)
        if kind == _UNIGRAM
        else lib.models.BPE(
            {name: number for number, (name, _) in enumerate(scores)},
            _merges(scores),
            unk_token=scores[unknown][0],
            fuse_unk=True,
            byte_fallback=fallback,
        )
    )
    made = lib.Tokenizer(model)
    spec, form = proto.normalizer_spec, lib.normalizers
    punctuation = (
        []
        if type(tokenizer).__name__ != "SigLIPTokenizer"
        else [form.Replace(lib.Regex(f"[{_escaped(string.punctuation)}]"), "")]
    )
    unicode = [form.Precompiled(spec.precompiled_charsmap)] if spec.precompiled_charsmap else []
    space = [form.Prepend(_SPACE)] if spec.add_dummy_prefix else []
    made.normalizer = _sequence(
        form.Lowercase(), *punctuation, *_blanks(), *unicode, *_blanks(), form.Replace(" ", _SPACE), *space
    )
    defined = [piece.piece for piece in pieces if piece.type == _USER_DEFINED]
    made.add_tokens([lib.AddedToken(name, normalized=True) for name in defined])
    return made


def _proto_of(tokenizer):
    form = optional_import("sentencepiece.sentencepiece_model_pb2", feature="A tokenizer of a preset", extra="hub")
    proto = form.ModelProto()
    proto.ParseFromString(tokenizer.proto)
    return proto


def _merges(scores):
    """The pairs of pieces that make another piece, in the order in which SentencePiece merges them."""
    number = {name: row for row, (name, _) in enumerate(scores)}
    merges = []
    for name, score in scores:
        cuts = [(name[:end], name[end:]) for end in range(1, len(name))]
        pairs = [(a, b) for a, b in cuts if a in number and b in number]
        merges += [(score, *pair) for pair in sorted(pairs, key=lambda pair: [number[each] for each in pair])]
    return [(a, b) for _, a, b in sorted(merges, key=lambda x: -x[0])]


def _blanks():
    lib = _library()
    return [lib.normalizers.Replace(lib.Regex(r"\s+"), " "), lib.normalizers.Strip()]


def _sequence(*normalizers):
    return _library().normalizers.Sequence(list(normalizers))


def _escaped(letters):
    return "".join(f"\\{letter}" for letter in letters)


def _require_same_numbers(made, tokenizer):
    """Raise a ValueError where KerasHub's own tokenizer gives other numbers, without marks of start and end."""
    for text in _PROBES:
        normalized, numbers = made.normalizer.normalize_str(text), made.encode(text).ids
        expected = [int(number) for number in tokenizer(normalized.replace(_SPACE, " ").strip())]
        expected = expected[:-1] if getattr(tokenizer, "add_eos", False) else expected
        received = f"a tokenizer that reads {text!r} as {numbers}"
        require(numbers == expected, received, f"{expected}, as KerasHub has it")

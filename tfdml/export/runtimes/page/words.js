// The token numbers of a text, as the library tokenizers makes them by tokenizer.json: words, or pieces of words.
const PUNCTUATION = /[!-/:-@[-`{-~]|\p{P}/u;
const CHINESE = /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;

function normalized(text, normalizer) {
  if (normalizer?.type !== "BertNormalizer") return normalizer?.type === "Lowercase" ? text.toLowerCase() : text;
  if (normalizer.clean_text) text = text.replace(/[\t\n\r]/g, " ").replace(/[\p{Cc}\p{Cf}\ufffd]/gu, "");
  if (normalizer.handle_chinese_chars) text = text.replace(CHINESE, " $& ");
  if (normalizer.strip_accents ?? normalizer.lowercase) text = text.normalize("NFD").replace(/\p{Mn}/gu, "");
  return normalizer.lowercase ? text.toLowerCase() : text;
}

function words(text, splitter) {
  if (splitter.type === "Whitespace") return text.match(/[\p{L}\p{M}\p{N}\p{Pc}]+|[^\p{L}\p{M}\p{N}\p{Pc}\s]+/gu) ?? [];
  const letters = [...text].map((letter) => (PUNCTUATION.test(letter) ? ` ${letter} ` : letter));
  return letters.join("").split(/\s+/u).filter((word) => word);
}

function pieces(word, { vocab, unk_token, continuing_subword_prefix: prefix, max_input_chars_per_word: most }) {
  const letters = [...word], found = [];
  if (prefix === undefined) return [Object.hasOwn(vocab, word) ? vocab[word] : vocab[unk_token]];
  if (letters.length > most) return [vocab[unk_token]];
  for (let begin = 0; begin < letters.length; ) {
    let end = letters.length;
    const piece = () => (begin ? prefix : "") + letters.slice(begin, end).join("");
    while (end > begin && !Object.hasOwn(vocab, piece())) end -= 1;
    if (end === begin) return [vocab[unk_token]];
    found.push(vocab[piece()]);
    begin = end;
  }
  return found;
}

export function tokens(text, { normalizer, pre_tokenizer, model }) {
  const found = words(normalized(text, normalizer), pre_tokenizer).flatMap((word) => pieces(word, model));
  return found.filter((number) => number !== model.vocab[model.unk_token]);
}

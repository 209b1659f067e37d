import { fitted, pair } from "./pixels.js";

const element = (id) => document.getElementById(id);
const json = async (name) => (await fetch(name)).json();
let latest = 0; // the number of the last image: answers to earlier ones are not shown

function say(text, wrong = false) {
  element("status").textContent = text;
  element("status").classList.toggle("wrong", wrong);
}

async function decoded(file) {
  const bitmap = await createImageBitmap(file, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  const canvas = element("picture");
  [canvas.width, canvas.height] = [bitmap.width, bitmap.height];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  canvas.hidden = false;
  element("hint").hidden = true;
  return context.getImageData(0, 0, bitmap.width, bitmap.height);
}

function cell(content) {
  const entry = document.createElement("td");
  entry.textContent = content;
  return entry;
}

function shown(payload) {
  return Object.entries(JSON.parse(payload)).map(([column, value]) => `${column}: ${value}`).join(", ");
}

function show(answer) {
  const { ids, scores, payload, id, embedding } = answer;
  element("neighbors").hidden = ids === undefined;
  if (ids === undefined) return say(`The embedding: ${[...embedding.data].map((x) => x.toFixed(4)).join(", ")}`);
  const rows = [...ids.data].map((name, row) => {
    const line = document.createElement("tr");
    const item = payload === undefined ? "" : shown(payload.data[row]);
    line.append(cell(name), cell(scores.data[row].toFixed(4)), cell(item));
    return line;
  });
  element("neighbors").tBodies[0].replaceChildren(...rows);
  if (id === undefined) say(`${rows.length} neighbors, the nearest first.`);
  else say(id.data[0] === "unknown" ? "Unknown: no item is near enough." : `A match: ${id.data[0]}.`);
}

async function start() {
  const [runtime, preprocessing] = await Promise.all([json("runtime.json"), json("preprocessing.json")]);
  const ort = await import(new URL(`${runtime.scripts}ort.wasm.min.mjs`, location));
  ort.env.wasm.wasmPaths = new URL(runtime.scripts, location).href;
  ort.env.wasm.numThreads = 1; // more need a server that isolates the page
  const session = await ort.InferenceSession.create("model.onnx");
  const search = async (file) => {
    const number = ++latest;
    say("Searching…");
    try {
      const pixels = fitted(await decoded(file), preprocessing);
      const shape = [1, ...pair(preprocessing.size), preprocessing.channels];
      const answer = await session.run({ images: new ort.Tensor("uint8", pixels, shape) });
      if (number === latest) show(answer);
    } catch (error) {
      if (number === latest) say(`${file.name}: ${error.message}`, true);
    }
  };
  element("file").addEventListener("change", () => element("file").files.length && search(element("file").files[0]));
  element("drop").addEventListener("drop", (event) => event.dataTransfer.files.length && search(event.dataTransfer.files[0]));
  say("Choose an image to see its neighbors.");
}

for (const name of ["dragover", "drop"]) element("drop").addEventListener(name, (event) => event.preventDefault());
start().catch((error) => say(`The model did not load: ${error.message}`, true));

// The caption window, which shows the newest words and nothing else.

import { receive } from "./broadcast.js";
import { $, element } from "./dom.js";

const options = new URLSearchParams(location.search);
const root = document.documentElement;
for (const name of ["background", "size", "align", "languages"]) root.dataset[name] = options.get(name);
root.style.setProperty("--rows", Number(options.get("rows") ?? 2));
const seconds = Number(options.get("seconds") ?? 10); // the window empties after this time without a new word
const boxes = [$("speech"), $("translation")];
let timer = 0;

/** Return a row of text after the name of its speaker. */
function row(speaker, parts, language) {
	const row = element("p", "");
	row.dir = "auto";
	row.lang = language;
	const text = element("span", "", row);
	if (speaker) element("span", "speaker", text, `${speaker} `);
	for (const [name, part] of Object.entries(parts)) element("span", name, text, part);
	return row;
}

function show(lines) {
	const spoken = lines.map(({ speaker, solid, pending, language }) => row(speaker, { solid, pending }, language));
	const isAlone = options.get("languages") === "translation";
	const translated = lines
		.filter(({ translation }) => translation)
		.map(({ speaker, translation, target }) => row(isAlone && speaker, { solid: translation }, target));
	boxes[0].replaceChildren(...spoken);
	boxes[1].replaceChildren(...translated);
	clearTimeout(timer);
	if (seconds > 0) timer = setTimeout(() => boxes.forEach((box) => box.replaceChildren()), seconds * 1000);
}

receive(show);

// The caption window: the newest words and nothing else.

import { receive } from "./broadcast.js";

const options = new URLSearchParams(location.search);
const root = document.documentElement;
for (const name of ["background", "size", "align"]) root.dataset[name] = options.get(name);
root.style.setProperty("--rows", Number(options.get("rows") ?? 2));
const seconds = Number(options.get("seconds") ?? 10); // without a new word, before it is empty
const box = document.getElementById("captions");
let timer = 0;

function show(lines) {
	box.replaceChildren(
		...lines.map(({ speaker, solid, pending }) => {
			const row = document.createElement("p");
			row.dir = "auto";
			const text = row.appendChild(document.createElement("span"));
			if (speaker) text.append(part("speaker", `${speaker} `));
			text.append(part("solid", solid), part("pending", pending));
			return row;
		}),
	);
	clearTimeout(timer);
	if (seconds > 0) timer = setTimeout(() => box.replaceChildren(), seconds * 1000);
}

function part(kind, text) {
	const span = document.createElement("span");
	span.className = kind;
	span.textContent = text;
	return span;
}

receive(show);

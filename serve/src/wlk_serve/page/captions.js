// The caption window, which shows the newest words and nothing else.

import { receive } from "./broadcast.js";
import { $, element } from "./dom.js";

const options = new URLSearchParams(location.search);
const root = document.documentElement;
for (const name of ["background", "size", "align"]) root.dataset[name] = options.get(name);
root.style.setProperty("--rows", Number(options.get("rows") ?? 2));
const seconds = Number(options.get("seconds") ?? 10); // the window empties after this time without a new word
const box = $("captions");
let timer = 0;

function show(lines) {
	box.replaceChildren(
		...lines.map(({ speaker, solid, pending }) => {
			const row = element("p", "");
			row.dir = "auto";
			const text = element("span", "", row);
			if (speaker) element("span", "speaker", text, `${speaker} `);
			element("span", "solid", text, solid);
			element("span", "pending", text, pending);
			return row;
		}),
	);
	clearTimeout(timer);
	if (seconds > 0) timer = setTimeout(() => box.replaceChildren(), seconds * 1000);
}

receive(show);

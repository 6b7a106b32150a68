// The dialogs for settings, for downloads and for the server's key.

import { $, element } from "./dom.js";
import { saveFile } from "./downloads.js";
import { SETTINGS } from "./settings.js";

/** The settings dialog; calls `onChange(settings)` after each change. */
export class Settings {
	#form = $("options-dialog").querySelector("form");

	constructor(settings, onChange) {
		this.current = settings;
		this.onChange = onChange;
		for (const [name, [group, title, choices]] of Object.entries(SETTINGS)) {
			const label = $(group).appendChild(document.createElement("label"));
			const field = document.createElement(choices ? "select" : "input");
			field.name = name;
			if (name === "language") field.setAttribute("list", "languages");
			for (const [value, text] of Object.entries(choices ?? {})) field.append(new Option(text, value));
			label.append(title, field);
		}
		this.#form.addEventListener("change", ({ target }) => target.name && this.set({ [target.name]: target.value.trim() }));
	}

	/** Show the dialog, and suggest the languages of the server's model as soon as they arrive. */
	open(key) {
		offerLanguages(key).catch(() => {}); // without suggestions, users can still type any code
		for (const name of Object.keys(SETTINGS)) this.#form.elements[name].value = this.current[name];
		$("options-dialog").showModal();
	}

	set(changes) {
		this.current = { ...this.current, ...changes };
		this.onChange(this.current);
	}
}

async function offerLanguages(key) {
	const answer = await fetch("v1/models", { headers: key ? { authorization: `Bearer ${key}` } : {} });
	const [model] = (await answer.json()).data;
	const names = new Intl.DisplayNames([], { type: "language" });
	$("languages").replaceChildren(...model.wlk.languages.map((code) => new Option(names.of(code), code)));
}

/** Offer a field for the name of each speaker; calls `onChange()` after each change. */
export function speakerFields(transcript, onChange) {
	const { speakers } = transcript;
	const labels = speakers.map((speaker) => {
		const label = element("label", "", null, speaker);
		const field = element("input", "", label);
		field.value = transcript.named(speaker);
		field.onchange = () => {
			transcript.rename(speaker, field.value.trim());
			onChange();
		};
		return label;
	});
	$("speakers").hidden = !speakers.length;
	$("speakers").replaceChildren($("speakers").firstElementChild, ...labels);
}

/** Return a function that opens the download dialog; `onClear()` empties the page. */
export function downloadDialog(transcript, onClear) {
	const dialog = $("save-dialog");
	dialog.addEventListener("click", ({ target }) => {
		const format = target.closest("[data-format]")?.dataset.format;
		const minute = new Date().toISOString().slice(0, 16).replace(":", "");
		if (format) saveFile(format, transcript, `captions-${minute}`);
	});
	$("clear").onclick = () => {
		if (!confirm("Remove all words from the page?")) return;
		onClear();
		dialog.close();
	};
	return () => {
		const { length } = transcript.words;
		$("count").textContent = `${length} words`;
		for (const button of dialog.querySelectorAll("[data-format]")) button.disabled = !length;
		dialog.showModal();
	};
}

/** Return a function that asks for the server's key; the dialog passes it to `onKey(key)`. */
export function keyDialog(onKey) {
	const dialog = $("key-dialog");
	dialog.querySelector("form").addEventListener("submit", () => {
		onKey($("key").value.trim());
		$("key").value = "";
	});
	$("key-cancel").onclick = () => dialog.close();
	return () => dialog.showModal();
}

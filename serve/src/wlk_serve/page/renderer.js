// Draws a transcript: whole clauses are additions to the log; screen readers skip the rest.

import { clock, joined, speakerName } from "./words.js";

const HUES = [170, 60, 270, 350, 110, 230]; // of speakers, in degrees

/** Draws the lines of a transcript into a log; lines that are closed are not touched again. */
export class Renderer {
	#views = [];
	#first = 0; // the first line that may still change
	#colours = new Map(); // of speakers

	constructor(log) {
		this.log = log;
	}

	clear() {
		this.log.replaceChildren();
		this.#views = [];
		this.#first = 0;
		this.#colours.clear();
	}

	draw({ lines }) {
		for (let i = this.#first; i < lines.length; i++) {
			this.#views[i] ??= this.#view(lines[i]);
			this.#update(this.#views[i], lines[i]);
			if (lines[i].isClosed && i === this.#first) this.#first += 1;
		}
	}

	#view(line) {
		const view = { clauses: 0 };
		view.element = element("div", line.note ? "note" : "line", this.log);
		if (line.note) {
			view.element.textContent = line.note;
		} else {
			view.mark = element("div", "mark", view.element);
			view.text = element("p", "text", view.element);
			view.text.dir = "auto";
			view.tail = element("span", "tail", view.text);
			view.tail.ariaHidden = "true";
			view.solid = element("span", "solid", view.tail);
			view.pending = element("span", "pending", view.tail);
		}
		return view;
	}

	#update(view, line) {
		if (line.note) return;
		view.element.hidden = !line.lastWord && !line.pending.length;
		this.#mark(view, line);
		for (const clause of line.clauses.slice(view.clauses)) {
			const span = element("span", "clause");
			span.textContent = joined(clause);
			view.tail.before(span);
		}
		view.clauses = line.clauses.length;
		view.solid.textContent = joined(line.open);
		view.pending.textContent = joined(line.pending);
	}

	#mark(view, { pause, speaker, words, pending }) {
		const first = words[0] ?? pending[0];
		if (first && !view.time) {
			view.time = element("span", "time", view.mark);
			view.time.textContent = clock(first.start);
			view.time.ariaHidden = "true";
			if (pause) {
				const mark = element("div", "pause");
				mark.textContent = `${Math.round(pause)} s`;
				mark.ariaHidden = "true";
				view.element.before(mark);
			}
		}
		if (speaker === null || view.speaker) return;
		const colours = this.#colours;
		if (!colours.has(speaker)) colours.set(speaker, HUES[colours.size % HUES.length]);
		view.speaker = element("span", "speaker", view.mark);
		view.speaker.textContent = speakerName(speaker);
		view.speaker.style.setProperty("--hue", colours.get(speaker));
	}
}

function element(name, kind, parent) {
	const made = document.createElement(name);
	made.className = kind;
	parent?.append(made);
	return made;
}

// Draws a transcript: screen readers read whole clauses as additions to the log, and skip the rest.

import { element } from "./dom.js";
import { clock, joined } from "./words.js";

const HUES = [170, 60, 270, 350, 110, 230]; // of speakers, in degrees

/**
 * Draws the lines of a transcript into a log.  Late speakers may divide closed lines differently:
 * these lines are drawn again, but screen readers read no word twice.
 */
export class Renderer {
	#views = new Map(); // by line
	#colours = new Map(); // by speaker
	#read = new WeakSet(); // words in the clauses that have been drawn

	constructor(log) {
		this.log = log;
	}

	draw(transcript) {
		const { lines } = transcript;
		const shown = new Set(lines);
		for (const [line, view] of this.#views) {
			if (shown.has(line)) continue;
			view.pause?.remove();
			view.element.remove();
			this.#views.delete(line);
		}
		let last;
		for (const line of lines) {
			if (!this.#views.has(line)) this.#views.set(line, this.#view(line, last));
			const view = this.#views.get(line);
			const name = transcript.named(line.speaker);
			if (!view.isDone || view.name !== name) this.#update(view, line, name);
			if (view.language !== line.language) this.#speak(view, line.language);
			if (view.translations !== line.translations.length) this.#translate(view, line);
			last = view.element;
		}
	}

	#view(line, last) {
		const view = { clauses: 0, name: null, translations: 0 };
		view.element = element("div", line.note ? "note" : "line", null, line.note);
		if (last) last.after(view.element);
		else this.log.prepend(view.element);
		if (!line.note) {
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

	#update(view, line, name) {
		view.isDone = line.isClosed;
		if (line.note) return;
		view.element.hidden = !line.lastWord && !line.pending.length;
		this.#mark(view, line, name);
		for (const clause of line.clauses.slice(view.clauses)) {
			const count = clause.findLastIndex((word) => this.#read.has(word)) + 1;
			this.#add(view, clause.slice(0, count), "off");
			this.#add(view, clause.slice(count));
		}
		view.clauses = line.clauses.length;
		view.solid.textContent = joined(line.open);
		view.pending.textContent = joined(line.pending);
	}

	#add(view, words, live = null) {
		if (!words.length) return;
		const span = element("span", "clause", null, joined(words));
		span.ariaLive = live;
		view.tail.before(span);
		for (const word of words) this.#read.add(word);
	}

	/** Set the language of the words, for the voice of a screen reader and the font. */
	#speak(view, language) {
		view.language = language;
		if (view.text) view.text.lang = language;
	}

	/** Draw the translations below the words; screen readers skip them unless they stand alone. */
	#translate(view, { translations }) {
		view.translations = translations.length;
		view.translation ??= element("p", "translation", view.element);
		view.translation.dir = "auto";
		view.translation.lang = translations[0]?.language ?? "";
		view.translation.ariaLive = document.documentElement.dataset.languages === "translation" ? null : "off";
		view.translation.replaceChildren(...translations.map(({ text }) => element("span", "", null, `${text} `)));
	}

	#mark(view, { pause, speaker, words, pending }, name) {
		const first = words[0] ?? pending[0];
		if (first && !view.time) {
			view.time = element("span", "time", view.mark, clock(first.start));
			view.time.ariaHidden = "true";
			if (pause) {
				view.pause = element("div", "pause", null, `${Math.round(pause)} s`);
				view.pause.ariaHidden = "true";
				view.element.before(view.pause);
			}
		}
		if (name === view.name) return;
		if (this.#read.has(first)) view.mark.ariaLive = "off";
		const colours = this.#colours;
		if (!colours.has(speaker)) colours.set(speaker, HUES[colours.size % HUES.length]);
		view.speaker ??= element("span", "speaker", view.mark);
		view.speaker.textContent = view.name = name;
		view.speaker.style.setProperty("--hue", colours.get(speaker));
	}
}

// Turns the server's messages into a transcript of lines, which consist of clauses of words.

import { endsPart, endsSentence, timedWords } from "./words.js";

const PAUSE_SECONDS = 2.5; // a longer pause between words begins a new line and is marked
const BREATH_SECONDS = 0.7; // a longer pause between words begins a new clause
const MAX_CLAUSE_WORDS = 20;
const MIN_PART_WORDS = 8;
const LONG_LINE_WORDS = 45; // after so many words, the next sentence begins a new line

/** A line: words of one item and one speaker, or a note from the page. */
class Line {
	clauses = []; // complete clauses, as lists of words
	open = []; // committed words of the current clause
	pending = []; // words that may still change
	isClosed = false;
	pause = 0; // seconds without words before this line
	note = "";
	speaker = null;
	translations = []; // of the text that begins in this line

	/** `language` is the code of the spoken language, "" if it is unknown. */
	constructor(item, language = "") {
		Object.assign(this, { item, language });
	}

	get words() {
		return [...this.clauses, this.open].flat();
	}

	get firstWord() {
		return this.clauses[0]?.[0] ?? this.open[0];
	}

	get lastWord() {
		return this.open.at(-1) ?? this.clauses.at(-1)?.at(-1);
	}

	endClause() {
		if (this.open.length) this.clauses.push(this.open);
		this.open = [];
	}

	close() {
		this.endClause();
		this.pending = [];
		this.isClosed = true;
	}
}

/** All lines of the page, the newest last. */
export class Transcript {
	lines = [];
	names = new Map(); // that the reader gave, by the server's name of a speaker
	language = ""; // of new lines: the chosen one, or the one that was detected last

	/** All committed words, in order. */
	get words() {
		return this.lines.flatMap((line) => line.words);
	}

	/** All translations, in order. */
	get translations() {
		return this.lines.flatMap((line) => line.translations);
	}

	/** The server's names of all speakers, each once. */
	get speakers() {
		return [...new Set(this.lines.map((line) => line.speaker))].filter((speaker) => speaker !== null);
	}

	/** Return the shown name of a speaker. */
	named(speaker) {
		return this.names.get(speaker) ?? speaker;
	}

	/** Show another name for a speaker in every line; an empty one is the server's again. */
	rename(speaker, name) {
		if (name && name !== speaker) this.names.set(speaker, name);
		else this.names.delete(speaker);
	}

	/** The end of the newest word, committed or not, in seconds. */
	get end() {
		const line = this.lines.findLast((other) => other.pending.length || other.lastWord);
		return (line?.pending.at(-1) ?? line?.lastWord)?.end ?? 0;
	}

	/** Apply a message whose session began `offset` seconds after the beginning of the transcript. */
	apply(message, offset = 0) {
		const { item_id: item, words: records } = message;
		const kind = message.type.split(".").at(-1);
		if (kind === "delta") {
			this.#openLine(item).pending = [];
			for (const word of timedWords(message.delta, records, offset)) this.#add(word, item);
		} else if (kind === "hypothesis") {
			const words = timedWords(message.text, records, offset);
			if (!words.length && this.#last?.item !== item) return;
			const line = this.#openLine(item);
			if (!line.lastWord && words.length) line.pause ||= this.#pauseBefore(words[0]);
			line.pending = words;
		} else if (kind === "completed" || kind === "failed") {
			this.interrupt();
			this.#label(item, records, offset);
			this.#detected(item, message.languages?.[0]?.code);
			if (kind === "failed") this.note(message.error.message);
		} else if (kind === "segment") {
			this.#label(item, records, offset);
		} else if (kind === "translation") {
			const { start, end, text, language } = message;
			this.#translate({ start: start + offset, end: end + offset, text, language });
		}
	}

	/** End the current line, for example when another session begins. */
	interrupt() {
		this.#last?.close();
	}

	/** Append a note from the page. */
	note(text) {
		this.interrupt();
		this.lines.push(Object.assign(new Line(), { note: text, isClosed: true }));
	}

	clear() {
		this.lines = [];
		this.names.clear();
	}

	get #last() {
		return this.lines.at(-1);
	}

	#openLine(item) {
		if (this.#last?.isClosed !== false || this.#last.item !== item) {
			this.interrupt();
			this.lines.push(new Line(item, this.language));
		}
		return this.#last;
	}

	/** Set the language of an item, which is known when the item is complete. */
	#detected(item, language) {
		if (!language) return;
		this.language = language;
		for (const line of this.lines) if (line.item === item) line.language = language;
	}

	#add(word, item) {
		let line = this.#openLine(item);
		const before = line.lastWord;
		if (before && this.#breaksLine(line, before, word)) {
			line.close();
			line = this.#openLine(item);
		}
		if (before && word.start - before.end > BREATH_SECONDS) line.endClause();
		if (!line.lastWord) {
			line.speaker = word.speaker;
			line.pause ||= this.#pauseBefore(word);
		}
		line.open.push(word);
		const count = line.open.length;
		const isPart = endsPart(word.text) && count >= MIN_PART_WORDS;
		if (endsSentence(word.text) || isPart || count >= MAX_CLAUSE_WORDS) line.endClause();
	}

	/** Add a translation to the line in which it begins; that of removed words is dropped. */
	#translate(translation, lines = this.lines) {
		const begins = ({ firstWord }) => firstWord && firstWord.start <= translation.start;
		lines.findLast(begins)?.translations.push(translation);
	}

	/** Label the words of an item with speakers that became known later, and divide its lines accordingly. */
	#label(item, records = [], offset) {
		const old = this.lines.filter((line) => line.item === item);
		const divided = Object.assign(new Transcript(), { language: old[0]?.language });
		let isNew = false;
		for (const word of old.flatMap((line) => line.words)) {
			const record = records.find(({ start, end }) => start + offset === word.start && end + offset === word.end);
			const { speaker = null } = record ?? word;
			isNew ||= speaker !== word.speaker;
			word.speaker = speaker;
			divided.#add(word, item);
		}
		if (!isNew) return;
		divided.interrupt();
		divided.lines[0].pause = old[0].pause;
		const lines = divided.lines.map((line) => {
			const same = old.find(({ words, lastWord }) => words.length === line.words.length && lastWord === line.lastWord);
			return same ? Object.assign(same, { speaker: line.speaker }) : line;
		});
		const translations = old.flatMap((line) => line.translations);
		for (const line of lines) line.translations = [];
		for (const translation of translations) this.#translate(translation, lines);
		const place = this.lines.indexOf(old[0]);
		this.lines = this.lines.filter((line) => !old.includes(line)).toSpliced(place, 0, ...lines);
	}

	#breaksLine(line, before, word) {
		const isLong = line.words.length >= LONG_LINE_WORDS && endsSentence(before.text);
		const isPause = word.start - before.end > PAUSE_SECONDS;
		return isLong || isPause || word.speaker !== line.speaker;
	}

	#pauseBefore(word) {
		const earlier = this.lines.findLast((line) => line.lastWord || line.note);
		const seconds = word.start - (earlier?.lastWord?.end ?? Infinity);
		return seconds > PAUSE_SECONDS ? seconds : 0;
	}
}

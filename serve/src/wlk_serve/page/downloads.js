// Writes a transcript to files, in the browser.

import { endsPart, endsSentence, textOf, twoDigits } from "./words.js";

const ROW_CHARACTERS = 42; // as in broadcast captions, which have two rows
const CAPTION_SECONDS = 6;
const GAP_SECONDS = 1; // a longer pause between words begins a new caption
const MIN_SECONDS = 1; // for which a caption is shown, unless the next one begins

/** Divide words into captions {start, end, text, speaker}; a translation is below the text in which it begins. */
export function captions(words, translations = []) {
	const groups = [];
	for (const word of words) {
		const current = groups.at(-1);
		if (!current || startsCaption(current, word)) groups.push([word]);
		else current.push(word);
	}
	return groups.map((group, i) => {
		const { start, speaker } = group[0];
		const next = groups[i + 1]?.[0].start ?? Infinity;
		const end = Math.min(Math.max(group.at(-1).end, start + MIN_SECONDS), next);
		const begun = translations.filter((each) => start <= each.start && each.start < next).map((each) => each.text);
		const text = [textOf(group), begun.join(" ")].filter(Boolean).map(rows).join("\n");
		return { start, end, text, speaker };
	});
}

function startsCaption(current, word) {
	const [first, last] = [current[0], current.at(-1)];
	const { length } = textOf([...current, word]);
	if (word.speaker !== first.speaker || word.start - last.end > GAP_SECONDS) return true;
	if (length > 2 * ROW_CHARACTERS || word.end - first.start > CAPTION_SECONDS) return true;
	if (endsSentence(last.text)) return length > ROW_CHARACTERS;
	return endsPart(last.text) && length > 1.5 * ROW_CHARACTERS;
}

/** Divide a long text into two rows of about the same length. */
function rows(text) {
	if (text.length <= ROW_CHARACTERS) return text;
	const spaces = [...text.matchAll(/\s/g)].map((match) => match.index);
	const middle = text.length / 2;
	const nearest = spaces.sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle))[0];
	return nearest === undefined ? text : `${text.slice(0, nearest)}\n${text.slice(nearest + 1)}`;
}

function stamp(seconds, point) {
	const time = new Date(Math.round(seconds * 1000));
	const rest = time.toISOString().slice(14, 23).replace(".", point);
	return `${twoDigits(Math.floor(time / 3_600_000))}:${rest}`;
}

const voice = ({ speaker }, transcript) => (speaker === null ? "" : `${transcript.named(speaker)}: `);
const times = ({ start, end }, point) => `${stamp(start, point)} --> ${stamp(end, point)}`;

function txt(transcript) {
	return transcript.lines
		.filter((line) => line.note || line.lastWord)
		.map((line) => {
			const below = line.translations.map(({ text }) => `  ${text}\n`).join("");
			return line.note ? `[${line.note}]\n` : `${voice(line, transcript)}${textOf(line.words)}\n${below}`;
		})
		.join("");
}

function srt(transcript) {
	return captions(transcript.words, transcript.translations)
		.map((caption, i) => `${i + 1}\n${times(caption, ",")}\n${voice(caption, transcript)}${caption.text}\n`)
		.join("\n");
}

function vtt(transcript) {
	const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
	const cues = captions(transcript.words, transcript.translations).map((caption) => {
		const tag = caption.speaker === null ? "" : `<v ${escape(transcript.named(caption.speaker))}>`;
		return `\n${times(caption, ".")}\n${tag}${escape(caption.text)}\n`;
	});
	return `WEBVTT\n${cues.join("")}`;
}

function json(transcript) {
	const { words, lines, translations } = transcript;
	const seconds = (value) => Math.round(value * 1000) / 1000;
	const record = ({ text, start, end, confidence, speaker }) => ({
		word: text.trim(),
		start: seconds(start),
		end: seconds(end),
		confidence,
		speaker: transcript.named(speaker) ?? undefined,
	});
	const translated = translations.map((each) => ({ ...each, start: seconds(each.start), end: seconds(each.end) }));
	const spoken = lines.filter((line) => line.lastWord);
	const text = spoken.map((line) => textOf(line.words)).join("\n");
	const all = { text, words: words.map(record), translations: translations.length ? translated : undefined };
	return `${JSON.stringify(all, null, 1)}\n`;
}

/** By file format, functions that return a transcript as text. */
export const WRITERS = { txt, srt, vtt, json };

/** Let the user download a transcript. */
export function saveFile(format, transcript, name) {
	const blob = new Blob([WRITERS[format](transcript)], { type: "text/plain" });
	const link = document.createElement("a");
	link.href = URL.createObjectURL(blob);
	link.download = `${name}.${format}`;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// User settings, kept in localStorage; the server's key is kept only as long as the tab.

const NAME = "wlk-captions";
const SIZES = { 1: "Smallest", 2: "Small", 3: "Medium", 4: "Large", 5: "Larger", 6: "Largest" };

/** By name: group, label, choices {value: label} (null for free text) and default. */
export const SETTINGS = {
	theme: ["reading", "Colours", { auto: "Same as system", light: "Light", dark: "Dark", contrast: "High contrast" }, "auto"],
	font: ["reading", "Typeface", { serif: "Serif", sans: "Sans serif", easy: "Easy to read" }, "serif"],
	size: ["reading", "Text size", SIZES, "3"],
	languages: ["reading", "Languages", { both: "Speech and translation", speech: "Speech", translation: "Translation" }, "both"],
	times: ["reading", "Times", { on: "Shown", off: "Hidden" }, "on"],
	language: ["speech", "Language code", null, ""],
	cleans: ["speech", "Microphone", { off: "Unprocessed", on: "Cleaned by the browser" }, "off"],
	aloud: ["access", "Screen reader", { on: "Reads final clauses", off: "Reads nothing" }, "on"],
	keys: ["access", "Single keys", { on: "On", off: "Off" }, "on"],
};

/** Return the settings in stored JSON; missing and invalid ones get their defaults. */
export function parse(text) {
	let stored = {};
	try {
		stored = JSON.parse(text) ?? {};
	} catch {} // nothing valid is stored
	const settings = { source: typeof stored.source === "string" ? stored.source : "" };
	for (const [name, [, , choices, preset]] of Object.entries(SETTINGS)) {
		const isChoice = choices ? Object.hasOwn(choices, stored[name]) : typeof stored[name] === "string";
		settings[name] = isChoice ? String(stored[name]) : preset;
	}
	return settings;
}

/** Return settings in which one is changed to the choice `step` places after its current one. */
export function stepped(settings, name, step, isRound = false) {
	const values = Object.keys(SETTINGS[name][2]);
	const next = values.indexOf(settings[name]) + step;
	const value = isRound ? values[next % values.length] : (values[next] ?? settings[name]);
	return { ...settings, [name]: value };
}

/** Set the attributes that the style sheet selects by. */
export function show(settings, root) {
	for (const [name, [group]] of Object.entries(SETTINGS)) {
		if (group === "reading") root.dataset[name] = settings[name];
	}
}

// If the browser refuses storage, choices are lost when the page is closed.
function attempt(action) {
	try {
		return action() ?? "";
	} catch {
		return "";
	}
}

export const load = () => parse(attempt(() => localStorage[NAME]));
export const save = (settings) => attempt(() => (localStorage[NAME] = JSON.stringify(settings)));
export const loadKey = () => attempt(() => sessionStorage[NAME]);
export const saveKey = (key) => attempt(() => (sessionStorage[NAME] = key));

// Connects the page's controls to the transcript and to the run that fills it.

import { sender } from "./broadcast.js";
import { TAB, microphones } from "./capture.js";
import { $ } from "./dom.js";
import { Follower } from "./follow.js";
import { onKeys } from "./keys.js";
import { notice } from "./notices.js";
import { Settings, downloadDialog, keyDialog, speakerFields } from "./panels.js";
import { Renderer } from "./renderer.js";
import { Run } from "./run.js";
import * as stored from "./settings.js";
import { Transcript } from "./transcript.js";
import { WakeLock } from "./wake_lock.js";

const QUIETEST = 60; // decibels below full scale at which the level meter is empty
const root = document.documentElement;
const transcript = new Transcript();
const renderer = new Renderer($("log"));
const follower = new Follower($("scroller"), $("page"), $("newest"));
const send = sender(transcript);
const wakeLock = new WakeLock();
let key = stored.loadKey();
let run = null;
let origin = 0; // seconds of audio in the runs before this one
let isDrawing = false;

function draw() {
	send(); // even if this tab is hidden and does not draw
	if (isDrawing) return;
	isDrawing = true;
	requestAnimationFrame(() => {
		isDrawing = false;
		$("intro").hidden = transcript.lines.length > 0;
		renderer.draw(transcript);
	});
}

function show(phase, text) {
	root.dataset.phase = phase;
	$("phase").textContent = text;
	$("start").textContent = phase === "idle" ? "Start" : "Stop";
}

function announce(name, detail) {
	const text = name ? notice(name, detail) : "";
	if ($("message").textContent !== text) $("message").textContent = text;
	$("retry").hidden = root.dataset.phase !== "waiting";
}

/** Callbacks of the run. */
const page = {
	deliver(message, seconds) {
		if (message.type === "wlk.lag") announce(message.seconds && "late"); // reported once; the delay at the top shows how late
		transcript.apply(message, origin + seconds);
		if (message.words?.length && /delta|hypothesis/.test(message.type)) {
			const lag = Math.max(0, origin + run.seconds - transcript.end);
			$("lag").textContent = `${lag.toFixed(1)} s delay`;
		}
		draw();
	},

	report({ state, reason, message, seconds, missing, model, language }) {
		if (state === "live") {
			show("live", run.isStopping ? "Finishing" : "Live");
			if (model) { // none after a resumption, which keeps both
				$("model").textContent = `${model} ${language ?? ""}`;
				transcript.language = language ?? "";
			}
			announce("");
		} else if (state === "waiting") {
			show("waiting", "Waiting");
			announce(reason, `next try in ${Math.ceil(seconds)} s.`);
		} else if (state === "renewed") {
			transcript.note(notice("renewed") + (missing < 1 ? "" : ` ${Math.round(missing)} s are missing.`));
			draw();
		} else if (state === "untranslated") {
			announce(state);
		} else if (state === "warning") {
			announce("refused", message);
		} else {
			end(reason, message);
		}
	},

	level(peak) {
		const level = Math.max(0, 1 + (20 * Math.log10(peak)) / QUIETEST);
		$("level").style.setProperty("--level", level.toFixed(2));
		if (root.dataset.phase === "waiting") $("lag").textContent = `${Math.round(run.waitingSeconds)} s kept`;
	},

	silence: (isSilent) => root.dataset.phase === "live" && announce(isSilent && "silent"),

	deviceGone() {
		run.stop();
		announce("deviceGone");
	},
};

async function start() {
	announce("");
	show("opening", "Opening");
	const { language, cleans } = panel.current;
	run = new Run(page, { source: $("source").value, cleans: cleans === "on", language, key });
	try {
		await run.start();
	} catch (error) {
		run = null;
		show("idle", "Ready");
		announce(error.notice, error.message);
		return;
	}
	wakeLock.set(true);
	await listSources();
}

function toggle() {
	if (!run) return start();
	if (root.dataset.phase === "live") show("live", "Finishing");
	return run.stop();
}

async function end(reason, message) {
	const { recording } = run;
	origin += run.seconds;
	run = null;
	transcript.interrupt();
	draw();
	wakeLock.set(false);
	show("idle", "Ready");
	$("lag").textContent = "";
	if (reason !== "stopped") announce(reason !== "key" || key ? reason : "", message);
	await recording.stop();
	page.level(0);
	if (reason === "key") askKey();
}

async function listSources() {
	const select = $("source");
	const chosen = run?.source ?? (select.value || panel.current.source);
	const options = [new Option("Default microphone", "")];
	for (const { id, name } of await microphones()) options.push(new Option(name, id));
	if (navigator.mediaDevices?.getDisplayMedia) options.push(new Option("Audio from a tab", TAB));
	select.replaceChildren(...options);
	select.value = chosen;
	if (select.selectedIndex < 0) select.value = "";
}

async function changeSource() {
	const source = $("source").value;
	panel.set({ source: source === TAB ? "" : source });
	if (!run) return;
	try {
		await run.change(source);
		announce("");
	} catch (error) {
		announce(error.notice, error.message);
		await listSources();
	}
}

const openWindow = () => open("page/captions.html", "wlk-captions", "popup,width=960,height=280");

const panel = new Settings(stored.load(), (settings) => {
	stored.save(settings);
	stored.show(settings, root);
	$("log").ariaLive = settings.aloud === "on" ? "polite" : "off";
});
function openSettings() {
	speakerFields(transcript, draw);
	panel.open(key);
}
const askKey = keyDialog((entered) => {
	key = entered;
	stored.saveKey(key);
	start();
});
const openDownloads = downloadDialog(transcript, () => {
	transcript.clear();
	draw();
});
const step = (name, by, isRound) => panel.set(stored.stepped(panel.current, name, by, isRound));

$("start").onclick = toggle;
$("retry").onclick = () => run?.call("wake");
$("save").onclick = openDownloads;
$("window").onclick = openWindow;
$("options").onclick = openSettings;
$("log").onclick = ({ target }) => target.closest(".speaker") && openSettings();
$("source").onchange = changeSource;
onKeys(
	{
		s: toggle,
		n: () => follower.newest(),
		d: openDownloads,
		c: openWindow,
		o: openSettings,
		t: () => step("theme", 1, true),
		"+": () => step("size", 1),
		"-": () => step("size", -1),
	},
	() => panel.current.keys === "on",
);
for (const [event, name] of Object.entries({ online: "wake", offline: "cut", pagehide: "abort" })) {
	addEventListener(event, () => run?.call(name));
}
addEventListener("beforeunload", (event) => run && event.preventDefault());
navigator.mediaDevices?.addEventListener("devicechange", listSources);

panel.set({});
listSources();
if (!isSecureContext) announce("insecure");

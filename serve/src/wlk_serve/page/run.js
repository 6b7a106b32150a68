// One run, from Start to the last words after Stop.

import { capture } from "./capture.js";
import { Channel } from "./channel.js";
import { Connection } from "./connection.js";
import { RecentAudio } from "./recent_audio.js";

const SILENT_PEAK = 0.001; // of full scale; a muted device stays below it
const SILENT_SECONDS = 8;

/** Records a source and captions it; reports to methods of `page`. */
export class Run {
	#quiet = 0; // number of silent samples in a row

	constructor(page, { source, cleans, language, key }) {
		Object.assign(this, { page, source, cleans, language, key });
	}

	/** Open the device, then connect to the server. */
	async start() {
		this.recording = await capture(this.source, this.cleans);
		const { rate } = this.recording;
		this.audio = new RecentAudio(rate);
		this.connection = new Connection({ rate, language: this.language });
		this.channel = new Channel(this.connection, this.audio, this.page, this.key);
		this.#record();
		this.call("start");
	}

	/** Call a method of the connection, if it exists yet. */
	call(name) {
		this.channel?.call(name);
	}

	/** Record from another device that has the same sample rate. */
	async change(source) {
		const recording = await capture(source, this.cleans, this.recording.rate);
		await this.recording.stop();
		Object.assign(this, { recording, source });
		this.#record();
	}

	/** Stop recording; the run ends after the last words, or at once on a second call. */
	async stop() {
		if (this.isStopping || !this.channel) return this.call("abort");
		this.isStopping = true;
		await this.recording.stop();
		return this.call("stop");
	}

	/** Seconds of recorded audio. */
	get seconds() {
		return this.audio.end / this.audio.rate;
	}

	/** Seconds of recorded audio that have not been sent yet. */
	get waitingSeconds() {
		return (this.audio.end - this.connection.sent) / this.audio.rate;
	}

	#record() {
		this.recording.begin(
			(samples, peak) => this.#append(samples, peak),
			() => this.page.deviceGone(),
		);
	}

	#append(samples, peak) {
		this.channel.append(samples);
		this.page.level(peak);
		const limit = SILENT_SECONDS * this.audio.rate;
		const wasSilent = this.#quiet > limit;
		this.#quiet = peak > SILENT_PEAK ? 0 : this.#quiet + samples.length;
		if (this.#quiet > limit !== wasSilent) this.page.silence(!wasSilent);
	}
}

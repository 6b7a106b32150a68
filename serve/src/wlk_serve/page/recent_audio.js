// Keeps the newest audio of a run, so that it can be sent again after a lost connection.

const KEPT_SECONDS = 120; // four times as long as a server keeps a session without a socket

/** 16-bit samples, numbered from 0; the oldest are dropped and read as silence. */
export class RecentAudio {
	#blocks = []; // {start, samples}
	start = 0; // the oldest kept sample
	end = 0; // one more than the newest sample

	constructor(rate) {
		this.rate = rate;
	}

	/** Append an Int16Array. */
	append(samples) {
		this.#blocks.push({ start: this.end, samples });
		this.end += samples.length;
		while (this.end - this.#blocks[0].start > KEPT_SECONDS * this.rate) this.#blocks.shift();
		this.start = this.#blocks[0].start;
	}

	/** Return the samples from `start` to `end` as an Int16Array, with zeros for dropped samples. */
	read(start, end) {
		const samples = new Int16Array(end - start);
		const first = this.#blocks.findLastIndex((block) => block.start <= start);
		for (const block of this.#blocks.slice(Math.max(first, 0))) {
			if (block.start >= end) break;
			const from = Math.max(start, block.start);
			samples.set(block.samples.subarray(from - block.start, end - block.start), from - start);
		}
		return samples;
	}
}

// Runs in the audio thread: collects samples into 16-bit blocks of 100 ms.

const BLOCK_SECONDS = 0.1;

class Blocks extends AudioWorkletProcessor {
	constructor() {
		super();
		this.length = Math.round(sampleRate * BLOCK_SECONDS);
		this.isOver = false;
		this.#begin();
		this.port.onmessage = () => {
			this.isOver = true;
			this.#post();
		};
	}

	process([channels]) {
		const count = channels.length;
		for (let i = 0; i < (channels[0]?.length ?? 0); i++) {
			let sample = 0;
			for (const channel of channels) sample += channel[i];
			sample = Math.max(-1, Math.min(1, sample / count));
			this.peak = Math.max(this.peak, Math.abs(sample));
			this.block[this.filled++] = Math.round(sample * 32767);
			if (this.filled === this.length) this.#post();
		}
		return !this.isOver;
	}

	#begin() {
		this.block = new Int16Array(this.length);
		this.filled = 0;
		this.peak = 0;
	}

	#post() {
		const samples = this.block.slice(0, this.filled);
		const message = { samples, peak: this.peak, isLast: this.isOver };
		this.port.postMessage(message, [samples.buffer]);
		this.#begin();
	}
}

registerProcessor("blocks", Blocks);

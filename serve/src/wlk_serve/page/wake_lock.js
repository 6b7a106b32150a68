// Keeps the screen on; browsers give the lock back when the tab is hidden.

export class WakeLock {
	#isOn = false;
	#lock;

	constructor() {
		document.addEventListener("visibilitychange", () => this.set(this.#isOn));
	}

	set(isOn) {
		this.#isOn = isOn;
		if (isOn) this.#request();
		else this.#lock?.release();
	}

	async #request() {
		if (document.hidden) return;
		this.#lock = await navigator.wakeLock?.request("screen").catch(() => null); // a low battery refuses
		if (!this.#isOn) this.set(false);
	}
}

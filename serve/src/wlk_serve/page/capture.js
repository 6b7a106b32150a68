// Captures audio from a microphone or a tab as blocks of 16-bit samples.

const RATE = 24_000; // as OpenAI's clients send; half the bytes of 48 kHz
const MAX_RATE = 48_000; // the highest rate that the server accepts

/** A source is this value or the id of a microphone; "" is the default microphone. */
export const TAB = "tab";

/** Return an error whose `notice` is a key of NOTICES in notices.js. */
const failure = (notice) => Object.assign(new Error(), { notice });

const cleaned = (on) => ({ echoCancellation: on, noiseSuppression: on, autoGainControl: on });

async function openMicrophone(id, cleans) {
	const audio = { channelCount: 1, ...cleaned(cleans), ...(id && { deviceId: { exact: id } }) };
	return navigator.mediaDevices.getUserMedia({ audio });
}

/** Browsers share the sound of a tab only together with its picture. */
async function openTab() {
	const stream = await navigator.mediaDevices.getDisplayMedia({ video: true, audio: cleaned(false) });
	if (stream.getAudioTracks().length) return stream;
	free(stream);
	throw failure("noTabAudio");
}

function free(stream) {
	for (const track of stream.getTracks()) track.stop();
}

/** Return a context and a source node, at RATE or, if Firefox insists, at the device's own rate. */
function contextOf(stream) {
	for (const options of [{ sampleRate: RATE }, {}]) {
		const context = new AudioContext(options);
		try {
			return [context, context.createMediaStreamSource(stream)];
		} catch (error) {
			context.close();
			if (error.name !== "NotSupportedError") throw error;
		}
	}
	throw failure("wrongRate");
}

/** An open device; created by `capture`. */
class Capture {
	constructor(stream, context, source) {
		this.node = new AudioWorkletNode(context, "blocks", { numberOfOutputs: 0 });
		this.rate = context.sampleRate;
		Object.assign(this, { stream, context, source });
	}

	/** Call `onBlock(samples, peak)` with an Int16Array every 100 ms, and `onEnd()` when the device is lost. */
	begin(onBlock, onEnd) {
		this.node.port.onmessage = ({ data }) => {
			if (data.samples.length) onBlock(data.samples, data.peak);
			if (data.isLast) this.onLast();
		};
		this.stream.getAudioTracks()[0].onended = () => this.isStopped || onEnd();
		this.context.onstatechange = () => this.isStopped || resume(this.context); // a phone may suspend it
		this.source.connect(this.node);
	}

	/** Wait for the last samples, then release the device. */
	async stop() {
		if (this.isStopped) return;
		this.isStopped = true;
		const last = new Promise((resolve) => (this.onLast = resolve));
		this.node.port.postMessage("stop");
		if (this.context.state === "running") await last;
		free(this.stream);
		await this.context.close();
	}
}

/** Open a source, at exactly `rate` if it is given; errors have a `notice`. */
export async function capture(source, cleans, rate) {
	if (!isSecureContext) throw failure("insecure");
	const isTab = source === TAB;
	let stream;
	let context;
	let node;
	try {
		stream = await (isTab ? openTab() : openMicrophone(source, cleans));
		[context, node] = contextOf(stream);
		if (context.sampleRate > MAX_RATE) throw failure("wrongRate");
		if (rate && rate !== context.sampleRate) throw failure("otherRate");
		await context.audioWorklet.addModule(new URL("worklet.js", import.meta.url));
		await resume(context);
		return new Capture(stream, context, node);
	} catch (error) {
		if (stream) free(stream);
		context?.close();
		error.notice ??= isTab ? "refusedTab" : error.name;
		throw error;
	}
}

const resume = (context) => context.resume().catch(() => {}); // the next state change tries again

/** Return the microphones as {id, name}; none until the user grants permission. */
export async function microphones() {
	const devices = (await navigator.mediaDevices?.enumerateDevices().catch(() => [])) ?? [];
	return devices
		.filter(({ kind, deviceId }) => kind === "audioinput" && deviceId && deviceId !== "default")
		.map(({ deviceId, label }) => ({ id: deviceId, name: label }));
}

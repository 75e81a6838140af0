const PARAGRAPH =
  "Tides are the rise and fall of sea levels caused by the gravity of the Moon and the Sun and by the rotation of the Earth. " +
  "Their times and heights differ from place to place; the shape of the coast and of the sea floor, winds and the weather " +
  "change them, and tables tell sailors and walkers when the water will be high (usually twice a day, 12 hours apart). ";

/** Short and long, in several scripts: from two tokens to the most that the models take. */
export const SENTENCES: readonly string[] = [
  "",
  "This is an example sentence",
  "Each sentence is converted",
  "Hello, world!",
  "Café déjà vu: naïve façade, Ångström, señor",
  "Das Boot liegt im Hafen, und die Straße ist naß.",
  "Быстрая коричневая лиса перепрыгивает через ленивую собаку",
  "我爱北京天安门，今天天气很好。",
  "안녕하세요 세계",
  "I ❤️ pizza 🍕",
  "for (let i = 0; i < 10; i++) { total += squares[i] ** 2; } // not the sum of squares",
  "Visit https://example.com/a?b=1&c=2 on 2025-01-16, $3.50 (50% off)!",
  "supercalifragilisticexpialidocious antidisestablishmentarianism",
  "a b c d e f g h i j k l m n o p q r s t u v w x y z",
  PARAGRAPH,
  PARAGRAPH.repeat(2),
  PARAGRAPH.repeat(5),
  PARAGRAPH.repeat(9),
];
